// Logs for JavaScript. stage, commit and read are hot calls; what may wait for a disk takes a callback (status, result)
// and runs on an I/O thread.
//
// Each log has a Float64Array that JavaScript made: its offsets and size lie there and are plain reads.
#include <utility>
#include <vector>

#include "bindings.h"
#include "log_table.h"
#include "napi_util.h"

namespace broadsheet {
namespace {

// Numbers of one batch as scanBatches hands them over, in a row.
constexpr size_t kNumbersPerBatch = 10;
// Those of one segment, of logFacts.
constexpr size_t kNumbersPerSegment = 5;

// The log that argument 0 names; without it the call is answered with CLOSED.
struct Target {
  Target(Args& args) : table(LogTable::of(args.environment())), handle(args.integer(0, "handle")), open(table.find(handle)) {}
  explicit operator bool() const { return open != nullptr; }
  LogTable& table;
  const int64_t handle;
  const std::shared_ptr<OpenLog> open;
};

Status closed() { return Status::Of(Code::kClosed, "the log is closed"); }

LogOptions log_options(Args& args, size_t first) {
  LogOptions options;
  options.segment_bytes = args.integer(first, "segmentBytes", 1);
  options.segment_ms = args.integer(first + 1, "segmentMs");
  options.index_bytes = args.integer(first + 2, "indexBytes", 0, INT32_MAX);
  options.index_interval = args.integer(first + 3, "indexIntervalBytes", 0, INT32_MAX);
  return options;
}

// logOpen(dir, state, segmentBytes, segmentMs, indexBytes, indexIntervalBytes, logStartOffset, recoveryPoint,
//         cleanShutdown, dense, knownEnd, latestLeaderEpoch, now, done(status, handle, fault))
napi_value log_open(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const std::string dir = args.string(0, "dir");
  napi_typedarray_type type;
  size_t length = 0;
  void* data = nullptr;
  const bool is_state = napi_get_typedarray_info(env, args.raw(1), &type, &length, &data, nullptr, nullptr) == napi_ok &&
                        type == napi_float64_array && length >= static_cast<size_t>(LogSlot::kCount);
  OpenOptions options;
  options.log = log_options(args, 2);
  options.log_start_offset = args.integer(6, "logStartOffset");
  options.recovery_point = args.integer(7, "recoveryPoint");
  options.clean_shutdown = args.boolean(8, "cleanShutdown");
  options.dense = args.boolean(9, "dense");
  options.known_end = args.integer(10, "knownEnd");
  options.latest_leader_epoch = args.integer(11, "latestLeaderEpoch", -1, INT32_MAX);
  options.now = args.integer(12, "now");
  const napi_value done = args.function(13, "done");
  if (!args.ok()) return args.reject();
  if (!is_state) {
    return args.environment().fail(Status::Of(Code::kInvalidArgument, "state must be a Float64Array"));
  }

  struct Open {
    std::shared_ptr<OpenLog> open = std::make_shared<OpenLog>();
    Status status;
    Reference done;
  };
  auto opening = std::make_shared<Open>();
  opening->open->state_array = Reference(env, args.raw(1));
  opening->open->state = static_cast<double*>(data);
  opening->done = Reference(env, done);
  Environment& environment = args.environment();
  environment.io().submit(
      [opening, dir, options] { opening->status = Log::open(dir, options, &opening->open->log); },
      [opening, &environment] {
        const napi_env env = environment.env();
        if (!opening->status.ok()) {
          opening->done.call({status_object(env, opening->status)});
          return;
        }
        OpenLog& open = *opening->open;
        open.publish();
        const RecoveryReport& report = open.log->report();
        open.set(LogSlot::kBytesScanned, report.bytes_scanned);
        open.set(LogSlot::kBytesTruncated, report.bytes_truncated);
        open.set(LogSlot::kIndexesRebuilt, report.indexes_rebuilt);
        const int64_t handle = LogTable::of(environment).add(opening->open);
        opening->done.call({undefined(env), number(env, static_cast<double>(handle)),
                            report.fault.empty() ? undefined(env) : string(env, report.fault)});
      });
  return number(env, 0);
}

// logStage(handle, bytes, start, end, leaderEpoch, now): 1 when a segment begins with the batch, else 0
napi_value log_stage(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  const Bytes bytes = args.slice(1);
  const int64_t leader_epoch = args.integer(4, "leaderEpoch", INT32_MIN, INT32_MAX);
  const int64_t now = args.integer(5, "now");
  if (!args.ok()) return args.reject();
  if (!target) return args.environment().fail(closed());
  Staged staged;
  Status status =
      target.open->log->stage(bytes.data, bytes.length, static_cast<int32_t>(leader_epoch), now, &staged);
  if (!status.ok()) return args.environment().fail(std::move(status));
  target.open->set(LogSlot::kLogEndOffset, target.open->log->end_offset());
  if (staged.rolled) target.open->set(LogSlot::kActiveSegmentBaseOffset, staged.base_offset);
  return number(env, staged.rolled ? 1 : 0);
}

// Starts what a write leaves to be done on the I/O threads.
void after_write(Environment& environment, const Target& target) {
  target.open->publish();
  // Many dirty files would soon have to be synced in place, one by one: their threads do it better.
  const bool wanted = target.open->log->wants_flush() || DescriptorCache::instance().crowded();
  if (wanted && target.open->log->offline().ok()) target.table.start_flush(target.open);
  std::shared_ptr<File> file;
  int64_t position = 0;
  int64_t length = 0;
  if (target.open->log->take_writeback(&file, &position, &length)) {
    // Only a hint: a failure shows at the flush.
    environment.io().submit(
        [file, position, length] { static_cast<void>(file->start_writeback(position, length).ok()); }, [] {});
  }
}

// logCommit(handle): 0
napi_value log_commit(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  if (!args.ok()) return args.reject();
  if (!target) return args.environment().fail(closed());
  Status status = target.open->log->commit();
  after_write(args.environment(), target);
  if (!status.ok()) return args.environment().fail(std::move(status));
  return number(env, 0);
}

// logRead(handle, offset, maxBytes, upTo, minOneMessage): ReadKind; results: segment, position, length
napi_value log_read(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  const int64_t offset = args.integer(1, "offset", INT64_MIN);
  const int64_t max_bytes = args.integer(2, "maxBytes");
  const int64_t up_to = args.integer(3, "upTo");
  const bool min_one_message = args.boolean(4, "minOneMessage");
  if (!args.ok()) return args.reject();
  Environment& environment = args.environment();
  if (!target) return environment.fail(closed());
  ReadResult result;
  Status status = target.open->log->read(offset, max_bytes, up_to, min_one_message, &result);
  // Out of descriptors, or as good as: read again in a later turn, when those of this one are free.
  if (status.code == Code::kLimit || (result.kind == ReadKind::kRange && target.table.turn_is_full())) {
    return number(env, static_cast<double>(ReadKind::kCold));
  }
  if (!status.ok()) return environment.fail(std::move(status));
  if (result.kind == ReadKind::kRange) {
    environment.set(Slot::kSegment, static_cast<double>(target.table.range_handle(std::move(result.file))));
    environment.set(Slot::kPosition, static_cast<double>(result.position));
    environment.set(Slot::kLength, static_cast<double>(result.length));
  }
  return number(env, static_cast<double>(result.kind));
}

// logEndTurn(): takes back the segment handles that reads gave since the last call
napi_value log_end_turn(napi_env env, napi_callback_info) {
  LogTable::of(Environment::of(env)).end_turn();
  return undefined(env);
}

// logRoll(handle, now): 0
napi_value log_roll(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  const int64_t now = args.integer(1, "now");
  if (!args.ok()) return args.reject();
  if (!target) return args.environment().fail(closed());
  Status status = target.open->log->roll(now);
  after_write(args.environment(), target);
  if (!status.ok()) return args.environment().fail(std::move(status));
  return number(env, 0);
}

// logSetOptions(handle, segmentBytes, segmentMs, indexBytes, indexIntervalBytes): 0
napi_value log_set_options(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  const LogOptions options = log_options(args, 1);
  if (!args.ok()) return args.reject();
  if (!target) return args.environment().fail(closed());
  target.open->log->set_options(options);
  return number(env, 0);
}

// logSetStartOffset(handle, offset): 0
napi_value log_set_start_offset(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  const int64_t offset = args.integer(1, "offset");
  if (!args.ok()) return args.reject();
  if (!target) return args.environment().fail(closed());
  Status status = target.open->log->set_log_start_offset(offset);
  if (!status.ok()) return args.environment().fail(std::move(status));
  target.open->publish();
  return number(env, 0);
}

// logSegments(handle): base offsets
napi_value log_segments(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  napi_value result = nullptr;
  napi_create_array(env, &result);
  if (!args.ok() || !target) return result;
  uint32_t index = 0;
  for (const std::shared_ptr<Segment>& segment : target.open->log->segments()) {
    napi_set_element(env, result, index++, number(env, static_cast<double>(segment->base_offset)));
  }
  return result;
}

// logOffline(handle): why, or undefined
napi_value log_offline(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  if (!args.ok()) return args.reject();
  return target ? status_object(env, target.open->log->offline()) : undefined(env);
}

// logFlush(handle, done(status))
napi_value log_flush(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  const napi_value done = args.function(1, "done");
  if (!args.ok()) return args.reject();
  if (!target) return args.environment().fail(closed());
  if (!target.open->log->offline().ok()) {
    return args.environment().fail(Status::Of(Code::kOffline, target.open->log->offline().context));
  }
  target.open->flush_waits.emplace_back(env, done);
  target.table.start_flush(target.open);
  return number(env, 0);
}

// logStartWriteback(handles, done(status)): all that is dirty in their active segments
napi_value log_start_writeback(napi_env env, napi_callback_info info) {
  Args args(env, info);
  uint32_t length = 0;
  const napi_value handles = args.array(0, "handles", &length);
  const napi_value done = args.function(1, "done");
  if (!args.ok()) return args.reject();
  LogTable& table = LogTable::of(args.environment());
  struct Work {
    std::vector<std::shared_ptr<Segment>> segments;
    Reference done;
  };
  auto work = std::make_shared<Work>();
  work->done = Reference(env, done);
  for (uint32_t i = 0; i < length; ++i) {
    napi_value element;
    double handle = -1;
    if (napi_get_element(env, handles, i, &element) != napi_ok) continue;
    if (napi_get_value_double(env, element, &handle) != napi_ok || !(handle >= 0)) continue;
    const std::shared_ptr<OpenLog>& open = table.find(static_cast<int64_t>(handle));
    if (open != nullptr) work->segments.push_back(open->log->segments().back());
  }
  Environment& environment = args.environment();
  environment.io().submit(
      [work] {
        for (const std::shared_ptr<Segment>& segment : work->segments) {
          std::shared_ptr<File> file;
          // Only a hint: failures show at the flush.
          if (segment->log.get(&file).ok()) static_cast<void>(file->start_writeback(0, 0).ok());
        }
      },
      [work, &environment] { work->done.call({undefined(environment.env())}); });
  return number(env, 0);
}

// Asks the log as it is now on an I/O thread; `ask` fills the answer, `make` turns it into JavaScript.
template <class Answer, class Ask, class Make>
napi_value ask_view(Args& args, napi_env env, const Target& target, napi_value done, Ask ask, Make make) {
  if (!target) return args.environment().fail(closed());
  struct Question {
    LogView view;
    Answer answer;
    Status status;
    Reference done;
  };
  auto question = std::make_shared<Question>();
  question->view = target.open->log->view();
  question->done = Reference(env, done);
  Environment& environment = args.environment();
  environment.io().submit(
      [question, ask] { question->status = ask(question->view, &question->answer); },
      [question, make, &environment] {
        const napi_env env = environment.env();
        if (question->status.ok()) {
          question->done.call({undefined(env), make(env, question->answer)});
        } else {
          question->done.call({status_object(env, question->status)});
        }
      });
  return number(env, 0);
}

struct Nothing {};
napi_value make_nothing(napi_env env, const Nothing&) { return undefined(env); }

napi_value make_buffer(napi_env env, const std::vector<uint8_t>& bytes) {
  napi_value result = nullptr;
  napi_create_buffer_copy(env, bytes.size(), bytes.data(), nullptr, &result);
  return result;
}

napi_value make_batches(napi_env env, const std::vector<StoredBatch>& batches) {
  void* data = nullptr;
  napi_value buffer = nullptr;
  napi_value result = nullptr;
  const size_t count = batches.size() * kNumbersPerBatch;
  napi_create_arraybuffer(env, count * sizeof(double), &data, &buffer);
  double* to = static_cast<double*>(data);
  for (const StoredBatch& batch : batches) {
    *to++ = static_cast<double>(batch.base_offset);
    *to++ = static_cast<double>(batch.last_offset());
    *to++ = static_cast<double>(batch.max_timestamp);
    *to++ = static_cast<double>(batch.producer_id);
    *to++ = batch.producer_epoch;
    *to++ = batch.base_sequence;
    *to++ = batch.record_count;
    *to++ = batch.attributes & 0xffff;
    *to++ = batch.leader_epoch;
    *to++ = static_cast<double>(batch.bytes());
  }
  napi_create_typedarray(env, napi_float64_array, count, buffer, 0, &result);
  return result;
}

// logWarm(handle, offset, maxBytes, done(status))
napi_value log_warm(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  const int64_t offset = args.integer(1, "offset");
  const int64_t max_bytes = args.integer(2, "maxBytes");
  const napi_value done = args.function(3, "done");
  if (!args.ok()) return args.reject();
  return ask_view<Nothing>(
      args, env, target, done,
      [offset, max_bytes](const LogView& view, Nothing*) { return view.warm(offset, max_bytes); }, make_nothing);
}

// logReadBatches(handle, offset, maxBytes, upTo, done(status, bytes))
napi_value log_read_batches(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  const int64_t offset = args.integer(1, "offset");
  const int64_t max_bytes = args.integer(2, "maxBytes");
  const int64_t up_to = args.integer(3, "upTo");
  const napi_value done = args.function(4, "done");
  if (!args.ok()) return args.reject();
  return ask_view<std::vector<uint8_t>>(
      args, env, target, done,
      [=](const LogView& view, std::vector<uint8_t>* out) { return view.read_batches(offset, max_bytes, up_to, out); },
      make_buffer);
}

// logFindByTimestamp(handle, timestamp, startOffset, upTo, done(status, bytes)); no bytes: none found
napi_value log_find_by_timestamp(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  const int64_t timestamp = args.integer(1, "timestamp", -kMaxSafeInteger);
  const int64_t start_offset = args.integer(2, "startOffset");
  const int64_t up_to = args.integer(3, "upTo");
  const napi_value done = args.function(4, "done");
  if (!args.ok()) return args.reject();
  return ask_view<std::vector<uint8_t>>(
      args, env, target, done,
      [=](const LogView& view, std::vector<uint8_t>* out) {
        return view.find_by_timestamp(timestamp, start_offset, up_to, out);
      },
      make_buffer);
}

// logFindByMaxTimestamp(handle, startOffset, upTo, done(status, bytes))
napi_value log_find_by_max_timestamp(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  const int64_t start_offset = args.integer(1, "startOffset");
  const int64_t up_to = args.integer(2, "upTo");
  const napi_value done = args.function(3, "done");
  if (!args.ok()) return args.reject();
  return ask_view<std::vector<uint8_t>>(
      args, env, target, done,
      [=](const LogView& view, std::vector<uint8_t>* out) {
        return view.find_by_max_timestamp(start_offset, up_to, out);
      },
      make_buffer);
}

// logScan(handle, from, upTo, producersOnly, done(status, numbers)): ten numbers per batch
napi_value log_scan(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  const int64_t from = args.integer(1, "from");
  const int64_t up_to = args.integer(2, "upTo");
  const bool producers_only = args.boolean(3, "producersOnly");
  const napi_value done = args.function(4, "done");
  if (!args.ok()) return args.reject();
  return ask_view<std::vector<StoredBatch>>(
      args, env, target, done,
      [=](const LogView& view, std::vector<StoredBatch>* out) { return view.scan(from, up_to, producers_only, out); },
      make_batches);
}

// logFacts(handle, done(status, numbers)): five numbers per segment
napi_value log_facts(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  const napi_value done = args.function(1, "done");
  if (!args.ok()) return args.reject();
  auto facts = std::make_shared<std::vector<SegmentFacts>>();
  if (target) *facts = target.open->log->facts();
  return ask_view<Nothing>(
      args, env, target, done,
      [facts](const LogView& view, Nothing*) {
        for (size_t i = 0; i < view.parts.size(); ++i) {
          StoredBatch largest;
          bool found = false;
          const LogView::Part& part = view.parts[i];
          if (Status status = part.segment->last_modified(&(*facts)[i].last_modified); !status.ok()) return status;
          Status status = part.segment->largest_timestamp(part.size, &largest, &found);
          // What cannot be read has no time of its own.
          if (!status.ok() && status.code != Code::kCorrupt) return status;
          if (status.ok() && found) (*facts)[i].largest_timestamp = largest.max_timestamp;
        }
        return Status::Ok();
      },
      [facts](napi_env env, const Nothing&) {
        void* data = nullptr;
        napi_value buffer = nullptr;
        napi_value result = nullptr;
        const size_t count = facts->size() * kNumbersPerSegment;
        napi_create_arraybuffer(env, count * sizeof(double), &data, &buffer);
        double* to = static_cast<double*>(data);
        for (const SegmentFacts& segment : *facts) {
          *to++ = static_cast<double>(segment.base_offset);
          *to++ = static_cast<double>(segment.size);
          *to++ = static_cast<double>(segment.largest_timestamp);
          *to++ = static_cast<double>(segment.last_modified);
          *to++ = static_cast<double>(segment.began_at);
        }
        napi_create_typedarray(env, napi_float64_array, count, buffer, 0, &result);
        return result;
      });
}

std::vector<int64_t> offsets_of(napi_env env, napi_value array, uint32_t length) {
  std::vector<int64_t> offsets;
  for (uint32_t i = 0; i < length; ++i) {
    napi_value element;
    double offset = -1;
    if (napi_get_element(env, array, i, &element) != napi_ok) continue;
    if (napi_get_value_double(env, element, &offset) != napi_ok) continue;
    // What is no offset is none of a segment either.
    offsets.push_back(offset >= 0 && offset <= kMaxSafeInteger ? static_cast<int64_t>(offset) : -1);
  }
  return offsets;
}

// logReplaceSegments(handle, old, cleaned, done(status, names))
napi_value log_replace_segments(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  uint32_t old_count = 0;
  uint32_t cleaned_count = 0;
  const napi_value old = args.array(1, "old", &old_count);
  const napi_value cleaned = args.array(2, "cleaned", &cleaned_count);
  const napi_value done = args.function(3, "done");
  if (!args.ok()) return args.reject();
  Environment& environment = args.environment();
  if (!target) return environment.fail(closed());
  struct Replace {
    ReplaceJob job;
    Status status;
    Reference done;
  };
  auto replace = std::make_shared<Replace>();
  Status status = target.open->log->begin_replace(offsets_of(env, old, old_count),
                                                  offsets_of(env, cleaned, cleaned_count), &replace->job);
  if (!status.ok()) return environment.fail(std::move(status));
  replace->done = Reference(env, done);
  environment.io().submit([replace] { replace->status = replace->job.run(); },
                          [replace, open = target.open, &environment] {
                            const napi_env env = environment.env();
                            open->log->finish_replace(replace->job, replace->status);
                            open->publish();
                            if (!replace->status.ok()) {
                              replace->done.call({status_object(env, replace->status)});
                              return;
                            }
                            napi_value names = nullptr;
                            napi_create_array(env, &names);
                            uint32_t index = 0;
                            for (const std::string& name : replace->job.gone) {
                              napi_set_element(env, names, index++, string(env, name));
                            }
                            replace->done.call({undefined(env), names});
                          });
  return number(env, 0);
}

// logRename(handle, dir, done(status))
napi_value log_rename(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  const std::string dir = args.string(1, "dir");
  const napi_value done = args.function(2, "done");
  if (!args.ok()) return args.reject();
  const std::shared_ptr<Folder> folder = target ? target.open->log->folder() : nullptr;
  return ask_view<Nothing>(
      args, env, target, done, [folder, dir](const LogView&, Nothing*) { return folder->rename(dir); }, make_nothing);
}

// logClose(handle, done(status))
napi_value log_close(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Target target(args);
  const napi_value done = args.function(1, "done");
  if (!args.ok()) return args.reject();
  if (!target) return args.environment().fail(closed());
  target.table.close(target.handle, Reference(env, done));
  return number(env, 0);
}

}  // namespace

void init_log_binding(napi_env env, napi_value exports) {
  napi_value names = nullptr;
  napi_create_object(env, &names);
#define X(name, text) napi_set_named_property(env, names, text, number(env, static_cast<double>(LogSlot::name)));
  BROADSHEET_LOG_SLOTS(X)
#undef X
  napi_set_named_property(env, exports, "logSlots", names);
  define(env, exports,
         {{"logOpen", log_open},
          {"logStage", log_stage},
          {"logCommit", log_commit},
          {"logRead", log_read},
          {"logEndTurn", log_end_turn},
          {"logRoll", log_roll},
          {"logSetOptions", log_set_options},
          {"logSetStartOffset", log_set_start_offset},
          {"logSegments", log_segments},
          {"logOffline", log_offline},
          {"logFlush", log_flush},
          {"logStartWriteback", log_start_writeback},
          {"logWarm", log_warm},
          {"logReadBatches", log_read_batches},
          {"logFindByTimestamp", log_find_by_timestamp},
          {"logFindByMaxTimestamp", log_find_by_max_timestamp},
          {"logScan", log_scan},
          {"logFacts", log_facts},
          {"logReplaceSegments", log_replace_segments},
          {"logRename", log_rename},
          {"logClose", log_close}});
}

}  // namespace broadsheet
