// The logs that one environment has open: their numbers, their flushes one after the other, their end.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "log.h"
#include "napi_util.h"

namespace broadsheet {

#define BROADSHEET_LOG_SLOTS(X)                                   \
  X(kLogStartOffset, "logStartOffset")                            \
  X(kLogEndOffset, "logEndOffset")                                \
  X(kWrittenOffset, "writtenOffset")                              \
  X(kFlushedOffset, "flushedOffset")                              \
  X(kActiveSegmentBaseOffset, "activeSegmentBaseOffset")          \
  X(kLogSizeInBytes, "sizeInBytes")                               \
  X(kOffline, "offline")               /* 1 once it is */         \
  X(kBytesScanned, "bytesScanned")     /* these three: recovery */ \
  X(kBytesTruncated, "bytesTruncated")                            \
  X(kIndexesRebuilt, "indexesRebuilt")

enum class LogSlot : size_t {
#define X(name, text) name,
  BROADSHEET_LOG_SLOTS(X)
#undef X
      kCount
};

struct OpenLog {
  std::unique_ptr<Log> log;
  Reference state_array;
  double* state = nullptr;
  bool flushing = false;
  bool closing = false;
  Reference close_waits;
  std::vector<Reference> flush_waits;

  void set(LogSlot slot, int64_t value) { state[static_cast<size_t>(slot)] = static_cast<double>(value); }
  void publish() {
    set(LogSlot::kLogStartOffset, log->log_start_offset());
    set(LogSlot::kLogEndOffset, log->end_offset());
    set(LogSlot::kWrittenOffset, log->written_offset());
    set(LogSlot::kFlushedOffset, log->flushed_offset());
    set(LogSlot::kActiveSegmentBaseOffset, log->active_base_offset());
    set(LogSlot::kLogSizeInBytes, log->size_in_bytes());
    set(LogSlot::kOffline, log->offline().ok() ? 0 : 1);
  }
};

// The logs of one environment.
class LogTable {
 public:
  explicit LogTable(Environment& environment) : environment_(environment) {}
  static LogTable& of(Environment& environment) {
    if (environment.logs == nullptr) environment.logs = std::make_shared<LogTable>(environment);
    return *environment.logs;
  }

  int64_t add(std::shared_ptr<OpenLog> log) {
    logs_.push_back(std::move(log));
    return static_cast<int64_t>(logs_.size()) - 1;
  }
  // Null when it was never opened, was closed, or is about to be.
  const std::shared_ptr<OpenLog>& find(int64_t handle) const {
    static const std::shared_ptr<OpenLog> kNone;
    if (static_cast<size_t>(handle) >= logs_.size()) return kNone;
    const std::shared_ptr<OpenLog>& log = logs_[static_cast<size_t>(handle)];
    return log == nullptr || log->closing ? kNone : log;
  }
  void forget(int64_t handle) { logs_[static_cast<size_t>(handle)].reset(); }

  // One number per file and turn of the loop.
  int64_t range_handle(std::shared_ptr<File> file) {
    const auto [at, added] = turn_.try_emplace(file.get(), 0);
    if (added) at->second = environment_.files().add(std::move(file));
    return at->second;
  }
  // Whether the ranges of this turn hold as many descriptors as they may.
  bool turn_is_full() const { return turn_.size() >= DescriptorCache::instance().file_limit() / 2; }
  void end_turn() {
    for (const auto& [file, handle] : turn_) environment_.files().remove(handle);
    turn_.clear();
  }

  void start_flush(const std::shared_ptr<OpenLog>& open) {
    if (open->flushing) return;
    open->flushing = true;
    struct Flush {
      FlushJob job;
      Status status;
      std::vector<Reference> waits;
    };
    auto flush = std::make_shared<Flush>();
    flush->job = open->log->begin_flush();
    flush->waits = std::exchange(open->flush_waits, {});
    environment_.io().submit([flush] { flush->status = flush->job.run(); },
                             [this, flush, open] {
                               open->flushing = false;
                               open->log->finish_flush(flush->job, flush->status);
                               open->publish();
                               call_all(flush->waits, flush->status);
                               flush_more(open);
                             });
  }

  void close(int64_t handle, Reference done) {
    const std::shared_ptr<OpenLog> open = logs_[static_cast<size_t>(handle)];
    open->closing = true;
    open->close_waits = std::move(done);
    close_handle_[open.get()] = handle;
    if (!open->flushing) finish_close(open);
  }

 private:
  void call_all(const std::vector<Reference>& waits, const Status& status) {
    for (const Reference& wait : waits) wait.call({status_object(environment_.env(), status)});
  }

  // What came while a flush ran.
  void flush_more(const std::shared_ptr<OpenLog>& open) {
    if (open->flushing || open->log == nullptr) return;
    if (!open->flush_waits.empty() && !open->log->offline().ok()) {
      call_all(std::exchange(open->flush_waits, {}), open->log->offline());
    }
    const bool wanted = !open->flush_waits.empty() || open->log->wants_flush();
    if (open->closing) {
      if (!open->flush_waits.empty()) {
        start_flush(open);
      } else if (open->close_waits) {
        finish_close(open);
      }
    } else if (wanted && open->log->offline().ok()) {
      start_flush(open);
    }
  }

  void finish_close(const std::shared_ptr<OpenLog>& open) {
    struct Close {
      FlushJob job;
      Status status;
      Reference done;
    };
    auto close = std::make_shared<Close>();
    close->done = std::move(open->close_waits);
    const bool sound = open->log->offline().ok();
    if (sound) close->job = open->log->begin_flush();
    environment_.io().submit(
        [close, open, sound] {
          if (sound) close->status = close->job.run();
          if (sound && close->status.ok()) close->status = open->log->finish_indexes();
          open->log->release();
        },
        [this, close, open, sound] {
          if (sound) open->log->finish_flush(close->job, close->status);
          open->publish();
          forget(close_handle_[open.get()]);
          close_handle_.erase(open.get());
          close->done.call({status_object(environment_.env(), close->status)});
        });
  }

  Environment& environment_;
  std::vector<std::shared_ptr<OpenLog>> logs_;  // by handle; a handle is never used again
  std::unordered_map<File*, int64_t> turn_;
  std::unordered_map<OpenLog*, int64_t> close_handle_;
};

}  // namespace broadsheet
