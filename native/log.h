// A log: segments in a row, written at their end by one thread, the loop's. Takes batches with stage(), writes them
// with commit(), finds them with read(). What waits for a disk is done elsewhere: open() and LogView run on I/O
// threads, flushes are handed out as FlushJob.
//
// stage() and commit(): staged is not written, written is not flushed. A failed commit leaves the log as it was before
// the first stage() after the last commit. A failed write other than for want of space or descriptors, and every
// failed flush, takes the log offline for good: what the page cache holds can't be trusted any more.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "log_view.h"
#include "segment.h"
#include "status.h"

namespace broadsheet {

struct LogOptions {
  int64_t segment_bytes = 1 << 30;
  int64_t segment_ms = 604800000;
  int64_t index_bytes = 10 << 20;
  int64_t index_interval = 4096;
};

struct OpenOptions {
  LogOptions log;
  int64_t log_start_offset = 0;
  int64_t recovery_point = 0;
  bool clean_shutdown = false;
  bool dense = false;
  int64_t known_end = 0;
  int64_t latest_leader_epoch = INT32_MAX;
  int64_t now = 0;
};

struct RecoveryReport {
  int64_t bytes_scanned = 0;
  int64_t bytes_truncated = 0;
  int64_t indexes_rebuilt = 0;
  std::string fault;  // of the first batch that did not check out; empty if all did
};

struct Staged {
  int64_t base_offset = 0;
  bool rolled = false;
};

enum class ReadKind { kRange = 0, kEmpty = 1, kCold = 2, kOutOfRange = 3 };

struct ReadResult {
  ReadKind kind = ReadKind::kEmpty;
  std::shared_ptr<File> file;
  int64_t position = 0;
  int64_t length = 0;
};

// What one flush does on an I/O thread.
struct FlushJob {
  std::vector<std::shared_ptr<Segment>> segments;  // to be synced
  std::vector<std::shared_ptr<Segment>> closed;    // whose indexes get their last entries and are synced
  std::shared_ptr<Folder> sync_folder;             // null: no file was made since the last flush
  int64_t target = 0;                              // flushed offset when it succeeds
  Status run() const;
};

// Segments that leave a log, and those that come in their place, on an I/O thread. The files of what comes lie ready under
// names that end in .cleaned, and are renamed to .swap first: from when all of them are, a start completes the exchange,
// before that it undoes it. What leaves is renamed to .deleted, in ascending order.
struct ReplaceJob {
  std::shared_ptr<Folder> folder;
  std::vector<std::shared_ptr<Segment>> old;      // ascending
  std::vector<std::shared_ptr<Segment>> cleaned;  // ascending
  std::vector<std::string> gone;                  // names of files that may be removed
  size_t renamed = 0;                             // of old
  Status run();
};

struct SegmentFacts {
  int64_t base_offset = 0;
  int64_t size = 0;               // bytes
  int64_t largest_timestamp = -1;  // of batches that hold records
  int64_t last_modified = 0;      // ms since the epoch
  int64_t began_at = -1;          // of the active one, unless it is empty: what segment.ms counts from
};

// Failures after which a log goes on: nothing was damaged, there was only too little of something.
bool passing(const Status& status);

class Log {
 public:
  // Opens or makes the log in a folder, which is made if missing. Waits for the disk: for an I/O thread.
  static Status open(const std::string& dir, const OpenOptions& options, std::unique_ptr<Log>* out);

  std::string dir() const { return folder_->path(); }
  const std::shared_ptr<Folder>& folder() const { return folder_; }
  const RecoveryReport& report() const { return report_; }

  int64_t log_start_offset() const { return log_start_offset_; }
  int64_t end_offset() const { return end_offset_; }          // staged
  int64_t written_offset() const { return written_offset_; }  // on disk
  int64_t flushed_offset() const { return flushed_offset_; }
  int64_t active_base_offset() const { return staged_count_ == 0 ? active().base_offset : last_staged().base_offset; }
  int64_t size_in_bytes() const { return closed_bytes_ + tail_.size; }
  const Status& offline() const { return offline_; }
  const std::vector<std::shared_ptr<Segment>>& segments() const { return segments_; }
  bool has_staged() const { return staged_count_ != 0; }

  // Takes one checked v2 batch at the start of [batch, batch + length), gives it the next offset and patches base
  // offset and leader epoch in place. The bytes must not change before commit().
  Status stage(uint8_t* batch, size_t length, int32_t leader_epoch, int64_t now, Staged* out);
  Status commit();
  // Never waits. kCorrupt when what lies there cannot be read.
  Status read(int64_t offset, int64_t max_bytes, int64_t up_to, bool min_one_message, ReadResult* out);
  // Closes the active segment, unless it is empty, and begins a new one. Nothing may be staged.
  Status roll(int64_t now);
  void set_options(const LogOptions& options);
  Status set_log_start_offset(int64_t offset);

  LogView view() const;
  // Facts that need no disk; `largest_timestamp` and `last_modified` are left to be asked of the segments.
  std::vector<SegmentFacts> facts() const;

  // One at a time: begin, run on an I/O thread, finish. kInvalidArgument unless `old` names closed segments in a row that
  // are flushed, and `cleaned` begins with the first of them, ascends and stays below what follows.
  Status begin_replace(const std::vector<int64_t>& old, const std::vector<int64_t>& cleaned, ReplaceJob* job);
  void finish_replace(const ReplaceJob& job, const Status& status);

  // One flush at a time: begin, run on an I/O thread, finish. One is wanted after a roll.
  bool wants_flush() const { return wants_flush_; }
  FlushJob begin_flush();
  void finish_flush(const FlushJob& job, const Status& status);
  // Where write-back should begin: the file and its part, when enough was written since the last time.
  bool take_writeback(std::shared_ptr<File>* file, int64_t* position, int64_t* length);

  // Ends the indexes of the active segment as a clean stop does; for an I/O thread, when nothing else uses the log.
  Status finish_indexes();
  // Closes all files. Ranges that were handed out stay readable.
  void release();

 private:
  friend class LogOpener;

  // Batches for one segment, waiting to be written.
  struct StagedSegment {
    int64_t base_offset = 0;
    bool is_new = false;
    int64_t position = 0;  // of the first byte
    SegmentTail tail;      // after them
    std::vector<iovec> parts;
    std::vector<OffsetEntry> offsets;
    std::vector<TimeEntry> times;
    std::shared_ptr<Segment> segment;  // once it is written
  };

  explicit Log(std::shared_ptr<Folder> folder) : folder_(std::move(folder)) {}
  Segment& active() const { return *segments_.back(); }
  const StagedSegment& last_staged() const { return staged_[staged_count_ - 1]; }
  StagedSegment& add_staged(int64_t base_offset, bool is_new, const SegmentTail& tail);
  bool must_roll(const SegmentTail& tail, int64_t base_offset, const StoredBatch& batch, int64_t now) const;
  Status write(StagedSegment* staged);
  void cut_back();
  // Ends the active segment and takes another; both are written.
  void take_segment(std::shared_ptr<Segment> segment);
  size_t segment_of(int64_t offset) const;

  const std::shared_ptr<Folder> folder_;
  LogOptions options_;
  RecoveryReport report_;
  std::vector<std::shared_ptr<Segment>> segments_;  // ascending, never empty
  SegmentTail tail_;                                // of the active one, written
  int64_t closed_bytes_ = 0;
  int64_t log_start_offset_ = 0;
  int64_t end_offset_ = 0;
  int64_t written_offset_ = 0;
  int64_t flushed_offset_ = 0;
  Status offline_;

  std::vector<StagedSegment> staged_;  // reused from tick to tick
  size_t staged_count_ = 0;

  std::vector<std::shared_ptr<Segment>> unfinished_;  // closed since the last flush began
  bool replacing_ = false;
  bool wants_flush_ = false;
  bool folder_dirty_ = false;
  // The next flush begins at this segment, if flushed_offset_ does not lie before it: it was cut shorter, now or by a
  // process that was killed, and a power cut could bring back what was cut off.
  int64_t cut_segment_ = INT64_MAX;
  int64_t writeback_begins_ = 0;  // position in the active segment
};

}  // namespace broadsheet
