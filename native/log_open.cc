// Opening a log: what a crash, a compaction or Apache Kafka left in its folder is put in order, what may be torn is
// scanned, and the end is found. Follows what Kafka's own loader does with the same files.
#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "crc32c.h"
#include "log.h"
#include "quarantine.h"

namespace broadsheet {
namespace {

bool ends_with(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

bool is_segment_file(const std::string& name) {
  return ends_with(name, ".log") || ends_with(name, ".index") || ends_with(name, ".timeindex") ||
         ends_with(name, ".txnindex");
}

// Reads a segment through a buffer and checks each batch whole: header, checksum, above the recovery point leader epochs
// that do not descend nor pass the latest one, offsets that ascend, and from `dense_from` on leave none out (a walk that
// begins in the middle can't tell of its first batch).
class CheckedWalk {
 public:
  CheckedWalk(const File& file, int64_t base_offset, int64_t position, int64_t limit, int64_t dense_from,
              const OpenOptions& options)
      : file_(file),
        base_offset_(base_offset),
        position_(position),
        limit_(limit),
        last_offset_(base_offset - 1),
        dense_from_(dense_from),
        epochs_from_(options.recovery_point),
        latest_epoch_(options.latest_leader_epoch),
        knows_last_(position == 0) {}

  Status next(StoredBatch* out, bool* found) {
    *found = false;
    if (position_ >= limit_) return Status::Ok();
    if (limit_ - position_ < StoredBatch::kHeaderBytes) return fault("is cut off within its header");
    const uint8_t* bytes = nullptr;
    if (Status status = provide(StoredBatch::kHeaderBytes, &bytes); !status.ok()) return status;
    *out = StoredBatch::parse(bytes, position_);
    if (Status status = out->check(base_offset_, limit_); !status.ok()) return status;
    if (out->base_offset <= last_offset_) return fault("does not come after the one before it");
    // No checksum covers the base offset, nor the leader epoch.
    if (knows_last_ && out->base_offset > last_offset_ + 1 && out->base_offset > dense_from_) {
      return fault("leaves out offsets from " + std::to_string(last_offset_ + 1) + " on");
    }
    if (out->base_offset >= epochs_from_) {
      if (out->leader_epoch < epoch_) return fault("is of an earlier leader epoch than the one before it");
      if (out->leader_epoch > latest_epoch_) return fault("is of a leader epoch that has not begun");
      epoch_ = out->leader_epoch;
    }
    if (Status status = provide(out->bytes(), &bytes); !status.ok()) return status;
    if (!batch_crc_fits(bytes, *out)) return fault("has a wrong checksum");
    last_offset_ = out->last_offset();
    knows_last_ = true;
    position_ += out->bytes();
    *found = true;
    return Status::Ok();
  }

 private:
  static constexpr int64_t kBufferBytes = 1 << 20;

  Status fault(const std::string& what) const {
    return Status::Of(Code::kCorrupt, "the batch at position " + std::to_string(position_) + " " + what);
  }

  // `length` bytes at position_, which lie before limit_.
  Status provide(int64_t length, const uint8_t** out) {
    if (position_ < begins_ || position_ + length > begins_ + static_cast<int64_t>(buffer_.size())) {
      const int64_t want = std::min(std::max(length, kBufferBytes), limit_ - position_);
      buffer_.resize(static_cast<size_t>(want));
      begins_ = position_;
      if (Status status = file_.pread_all(buffer_.data(), buffer_.size(), position_); !status.ok()) return status;
    }
    *out = buffer_.data() + (position_ - begins_);
    return Status::Ok();
  }

  const File& file_;
  const int64_t base_offset_;
  int64_t position_;
  const int64_t limit_;
  int64_t last_offset_;
  const int64_t dense_from_;
  const int64_t epochs_from_;
  const int64_t latest_epoch_;
  int64_t epoch_ = -1;
  bool knows_last_;
  int64_t begins_ = 0;
  std::vector<uint8_t> buffer_;
};

struct SegmentFiles {
  int64_t log = -1;  // bytes; -1: there is none
  int64_t index = -1;
  int64_t timeindex = -1;
};

}  // namespace

class LogOpener {
 public:
  LogOpener(const std::string& dir, const OpenOptions& options)
      : dir_(dir), options_(options), log_(new Log(std::make_shared<Folder>(dir))), quarantine_(dir) {}

  Status run(std::unique_ptr<Log>* out) {
    log_->set_options(options_.log);
    if (Status status = make_folder(); !status.ok()) return status;
    std::vector<DirectoryEntry> entries;
    if (Status status = list_directory(dir_, &entries); !status.ok()) return status;
    if (Status status = clear_leftovers(entries); !status.ok()) return status;
    if (changed_) {
      if (Status status = list_directory(dir_, &entries); !status.ok()) return status;
    }
    if (Status status = take_in(entries); !status.ok()) return status;
    if (Status status = load_closed(); !status.ok()) return status;
    if (Status status = load_last(); !status.ok()) return status;
    if (end_offset_ < options_.log_start_offset) {
      // What is left lies before what readers may see: a power cut took the rest.
      if (report_.fault.empty()) {
        report_.fault = "the log ends at offset " + std::to_string(end_offset_) + ", before its start at " +
                        std::to_string(options_.log_start_offset);
      }
      if (Status status = remove_from(0); !status.ok()) return status;
    }
    if (log_->segments_.empty()) {
      if (Status status = make_first(); !status.ok()) return status;
    }
    Log& log = *log_;
    log.active().active = true;
    log.tail_.created_at = options_.now;
    log.end_offset_ = end_offset_;
    log.written_offset_ = end_offset_;
    log.log_start_offset_ = std::max(options_.log_start_offset, log.segments_.front()->base_offset);
    log.flushed_offset_ = clean_ ? end_offset_ : std::min(options_.recovery_point, end_offset_);
    log.writeback_begins_ = log.tail_.size;
    log.cut_segment_ = log.active().base_offset;
    log.report_ = report_;
    log.report_.fault += quarantine_.text();
    *out = std::move(log_);
    return Status::Ok();
  }

 private:
  std::string path(const std::string& name) const { return dir_ + "/" + name; }

  Status remove(const std::string& name) {
    changed_ = true;
    Status status = remove_file(path(name));
    return status.code == Code::kNotFound ? Status::Ok() : status;
  }

  Status make_folder() {
    struct stat facts;
    Status status = stat_path(dir_, &facts);
    if (status.ok() && !S_ISDIR(facts.st_mode)) return Status::Of(Code::kIo, dir_ + " is not a folder");
    if (status.code != Code::kNotFound) return status;
    if (status = make_directory(dir_); !status.ok()) return status;
    return sync_directory(parent_of(dir_));
  }

  // .deleted: waited for its deletion. .cleaned: an unfinished compaction. .swap: a finished one that was about to
  // replace the segments that it covers.
  Status clear_leftovers(const std::vector<DirectoryEntry>& entries) {
    int64_t first_cleaned = INT64_MAX;
    std::vector<std::string> swaps;
    for (const DirectoryEntry& entry : entries) {
      if (entry.directory) continue;
      if (ends_with(entry.name, ".deleted") && !ends_with(entry.name, ".checkpoint.deleted")) {
        if (Status status = remove(entry.name); !status.ok()) return status;
      } else if (ends_with(entry.name, ".cleaned")) {
        const int64_t offset = offset_of_file_name(entry.name);
        if (offset >= 0) first_cleaned = std::min(first_cleaned, offset);
        if (Status status = remove(entry.name); !status.ok()) return status;
      } else if (ends_with(entry.name, ".swap") && offset_of_file_name(entry.name) >= 0) {
        swaps.push_back(entry.name);
      }
    }
    // A swap file at or behind a .cleaned one belongs to a split that did not finish.
    std::vector<std::string> valid;
    for (const std::string& name : swaps) {
      if (offset_of_file_name(name) < first_cleaned) {
        valid.push_back(name);
      } else if (Status status = remove(name); !status.ok()) {
        return status;
      }
    }
    for (const std::string& name : valid) {
      if (!ends_with(name, ".log.swap")) continue;
      int64_t last = -1;
      if (Status status = last_offset_of(name, &last); !status.ok()) return status;
      const int64_t first = offset_of_file_name(name);
      for (const DirectoryEntry& entry : entries) {
        const int64_t offset = offset_of_file_name(entry.name);
        const bool covered = offset >= first && (offset == first || offset <= last);
        if (!entry.directory && is_segment_file(entry.name) && covered) {
          if (Status status = remove(entry.name); !status.ok()) return status;
        }
      }
    }
    for (const std::string& name : valid) {
      const std::string plain = name.substr(0, name.size() - std::string(".swap").size());
      changed_ = true;
      if (Status status = rename_path(path(name), path(plain)); !status.ok()) return status;
    }
    return changed_ ? sync_directory(dir_) : Status::Ok();
  }

  Status last_offset_of(const std::string& name, int64_t* last) const {
    std::shared_ptr<File> file;
    if (Status status = File::open(path(name), OpenMode::kRead, &file); !status.ok()) return status;
    int64_t size = 0;
    if (Status status = file->size(&size); !status.ok()) return status;
    BatchWalker walker(*file, offset_of_file_name(name), 0, size, true);
    for (;;) {
      StoredBatch batch;
      bool found = false;
      Status status = walker.next(&batch, &found);
      if (!status.ok() && status.code != Code::kCorrupt) return status;
      if (!status.ok() || !found) return Status::Ok();
      *last = batch.last_offset();
    }
  }

  Status take_in(const std::vector<DirectoryEntry>& entries) {
    for (const DirectoryEntry& entry : entries) {
      const int64_t offset = offset_of_file_name(entry.name);
      if (entry.directory || offset < 0) continue;
      if (entry.name == segment_file_name(offset, ".log")) {
        if (entry.size > INT32_MAX) {
          return Status::Of(Code::kCorrupt, path(entry.name) + " is larger than a segment can be");
        }
        files_[offset].log = entry.size;
      } else if (entry.name == segment_file_name(offset, ".index")) {
        files_[offset].index = entry.size;
      } else if (entry.name == segment_file_name(offset, ".timeindex")) {
        files_[offset].timeindex = entry.size;
      }
    }
    for (auto at = files_.begin(); at != files_.end();) {
      if (at->second.log >= 0) {
        ++at;
        continue;
      }
      // Indexes whose segment is gone.
      if (at->second.index >= 0) {
        if (Status status = remove(segment_file_name(at->first, ".index")); !status.ok()) return status;
      }
      if (at->second.timeindex >= 0) {
        if (Status status = remove(segment_file_name(at->first, ".timeindex")); !status.ok()) return status;
      }
      at = files_.erase(at);
    }
    for (const auto& [offset, facts] : files_) {
      log_->segments_.push_back(std::make_shared<Segment>(log_->folder_, offset, options_.log.index_interval));
    }
    return Status::Ok();
  }

  // All but the last segment; the last one too, and so those behind it, is left to load_last when a cut is made.
  Status load_closed() {
    clean_ = options_.clean_shutdown;
    std::vector<std::shared_ptr<Segment>>& segments = log_->segments_;
    for (size_t i = 0; i + 1 < segments.size(); ++i) {
      Segment& segment = *segments[i];
      const SegmentFiles& facts = files_[segment.base_offset];
      segment.closed_size = facts.log;
      // Flushed as a whole when the next one begins at or below the recovery point.
      if (clean_ || segments[i + 1]->base_offset <= options_.recovery_point) {
        if (Status status = adopt_indexes(&segment, facts); !status.ok()) return status;
      } else {
        bool cut = false;
        SegmentTail tail;
        if (Status status = scan(&segment, facts, &tail, &cut); !status.ok()) return status;
        segment.closed_size = tail.size;
        if (tail.max_timestamp > tail.last_time_entry) {
          segment.times.append({{tail.max_timestamp, tail.max_timestamp_offset}});
        }
        cut = cut || lacks_end(i);
        if (cut) {
          if (Status status = reaches_known_end(segment, tail); !status.ok()) return status;
          // First those behind it: a kill in between leaves the damage for the next start to find.
          if (Status status = remove_from(i + 1); !status.ok()) return status;
          if (Status status = cut_tail(segment, facts, tail); !status.ok()) return status;
          log_->tail_ = tail;
          last_loaded_ = true;
          break;
        }
        if (Status status = finish_indexes(&segment); !status.ok()) return status;
        log_->unfinished_.push_back(segments[i]);
      }
      log_->closed_bytes_ += segment.closed_size;
    }
    return Status::Ok();
  }

  // Whether the end of a segment that was scanned is missing, though what is there checks out: a power cut may take the
  // last writes and leave the name of the next segment. What lies behind must not be taken for what comes next.
  bool lacks_end(size_t i) {
    const int64_t next = log_->segments_[i + 1]->base_offset;
    if (!options_.dense || end_offset_ >= next || next <= options_.log_start_offset) return false;
    if (report_.fault.empty()) {
      report_.fault = log_->segments_[i]->log.name() + ": it ends at offset " + std::to_string(end_offset_) +
                      ", and the next segment begins at " + std::to_string(next);
    }
    return true;
  }

  // Before anything is cut.
  Status reaches_known_end(const Segment& segment, const SegmentTail& tail) const {
    if (end_offset_ >= options_.known_end) return Status::Ok();
    const std::string fault = report_.fault.empty()
                                  ? segment.log.name() + ": it ends at position " + std::to_string(tail.size)
                                  : report_.fault;
    return Status::Of(Code::kCorrupt, dir_ + " is damaged: its log ends at offset " + std::to_string(end_offset_) +
                                          ", and is known to reach offset " + std::to_string(options_.known_end) +
                                          " (" + fault + ")");
  }

  Status adopt_indexes(Segment* segment, const SegmentFiles& facts) {
    Status status = Status::Of(Code::kNotFound, "no index");
    if (facts.index >= 0 && facts.timeindex >= 0) {
      status = segment->offsets.adopt_closed(facts.index);
      if (status.ok()) status = segment->times.adopt_closed(facts.timeindex);
    }
    if (status.ok()) return status;
    if (status.code != Code::kCorrupt && status.code != Code::kNotFound) return status;
    ++report_.indexes_rebuilt;
    segment->distrust_indexes();
    // Short of space it is tried again when somebody looks for something in that segment.
    status = segment->rebuild_indexes(facts.log);
    return passing(status) ? Status::Ok() : status;
  }

  Status load_last() {
    if (log_->segments_.empty() || last_loaded_) return Status::Ok();
    Segment& segment = *log_->segments_.back();
    const SegmentFiles& facts = files_[segment.base_offset];
    bool cut = false;
    if (clean_) {
      if (Status status = walk(&segment, facts, false, INT64_MAX, &log_->tail_, &cut); !status.ok()) return status;
      if (!cut && (options_.known_end == 0 || end_offset_ == options_.known_end)) return Status::Ok();
      // Not so clean: the end does not check out.
      clean_ = false;
      options_.recovery_point = std::min(options_.recovery_point, segment.base_offset);
    }
    if (Status status = scan(&segment, facts, &log_->tail_, &cut); !status.ok()) return status;
    if (Status status = reaches_known_end(segment, log_->tail_); !status.ok()) return status;
    return cut_tail(segment, facts, log_->tail_);
  }

  // Checks a segment from the recovery point on, finds the first bad batch and makes its indexes again.
  Status scan(Segment* segment, const SegmentFiles& facts, SegmentTail* tail, bool* cut) {
    return walk(segment, facts, true, options_.recovery_point, tail, cut);
  }

  // Cuts off what lies behind the last good batch.
  Status cut_tail(Segment& segment, const SegmentFiles& facts, const SegmentTail& tail) {
    if (tail.size == facts.log) return Status::Ok();
    std::shared_ptr<File> file;
    if (Status status = segment.log.get(&file); !status.ok()) return status;
    const std::string name = segment_file_name(segment.base_offset, ".log");
    if (Status status = quarantine_.keep_tail(name, *file, tail.size, facts.log); !status.ok()) return status;
    if (Status status = file->truncate(tail.size); !status.ok()) return status;
    report_.bytes_truncated += facts.log - tail.size;
    return Status::Ok();
  }

  // Finds a segment's end: takes its indexes as far as they check out and lie below `trusted`, and reads on from
  // there. *cut tells that it ends before its file does.
  Status walk(Segment* segment, const SegmentFiles& facts, bool checked, int64_t trusted, SegmentTail* tail,
              bool* cut) {
    *tail = SegmentTail();
    *cut = false;
    end_offset_ = segment->base_offset;
    std::shared_ptr<File> file;
    if (Status status = segment->log.get(&file); !status.ok()) return status;
    bool restart = true;
    if (facts.index >= 0 && facts.timeindex >= 0 && trusted > segment->base_offset) {
      restart = !begin_at_index(segment, facts, *file, checked, trusted, tail);
    }
    if (restart) {
      *tail = SegmentTail();
      // A short segment has no entries, and nothing is lost by reading it again.
      const bool had_none = facts.index == 0 && facts.timeindex >= 0 && trusted > segment->base_offset;
      if (facts.log > 0 && !had_none) ++report_.indexes_rebuilt;
      if (Status status = segment->offsets.truncate(0); !status.ok()) return status;
      if (Status status = segment->times.truncate(0); !status.ok()) return status;
    }
    std::vector<OffsetEntry> offsets;
    std::vector<TimeEntry> times;
    const int64_t begins = tail->size;
    const int64_t first_timestamp = tail->first_timestamp;
    BatchWalker plain(*file, segment->base_offset, begins, facts.log, true);
    const int64_t dense_from = options_.dense ? options_.log_start_offset : INT64_MAX;
    CheckedWalk whole(*file, segment->base_offset, begins, facts.log, dense_from, options_);
    for (;;) {
      StoredBatch batch;
      bool found = false;
      Status status = checked ? whole.next(&batch, &found) : plain.next(&batch, &found);
      if (!status.ok() && status.code != Code::kCorrupt) return status;
      if (!status.ok()) {
        *cut = true;
        if (report_.fault.empty()) report_.fault = segment->log.name() + ": " + status.context;
      }
      if (!status.ok() || !found) break;
      extend_tail(tail, batch, options_.log.index_interval, &offsets, &times);
      end_offset_ = batch.last_offset() + 1;
    }
    if (begins != 0) tail->first_timestamp = first_timestamp;
    if (checked) report_.bytes_scanned += tail->size - begins;
    segment->offsets.append(offsets);
    segment->times.append(times);
    if (!checked) return Status::Ok();
    if (tail->max_timestamp > tail->last_time_entry) {
      segment->times.append({{tail->max_timestamp, tail->max_timestamp_offset}});
      tail->last_time_entry = tail->max_timestamp;
      ++tail->time_entries;
    }
    return finish_indexes(segment);
  }

  // Short of space the indexes stay short, which is allowed: what is missing is kept in memory and written later.
  static Status finish_indexes(Segment* segment) {
    if (Status status = segment->offsets.finish(); !status.ok() && !passing(status)) return status;
    Status status = segment->times.finish();
    return passing(status) ? Status::Ok() : status;
  }

  // Sets the tail to the last index entry that can be trusted. False when the walk has to begin at the start.
  bool begin_at_index(Segment* segment, const SegmentFiles& facts, const File& file, bool checked, int64_t trusted,
                      SegmentTail* tail) {
    if (!segment->offsets.adopt(facts.index, facts.log, trusted).ok()) return false;
    OffsetEntry entry;
    if (!segment->offsets.last(true, &entry).ok()) return false;
    if (segment->offsets.count() == 0) {
      // Nothing was dropped but perhaps a tail of zeros: there is just little in the segment. With the whole of it
      // read again, the time index is made again.
      return false;
    }
    if (!segment->times.adopt(facts.timeindex, entry.offset).ok()) return false;
    TimeEntry time;
    if (!segment->times.last(true, &time).ok()) return false;
    if (segment->times.count() == 0) return false;
    if (checked) {
      // A crash may have taken the end of the time index alone: what came behind its last entry is read again.
      if (!segment->offsets.adopt(facts.index, facts.log, time.offset + 1).ok()) return false;
      if (!segment->offsets.last(true, &entry).ok() || segment->offsets.count() == 0) return false;
    }
    uint8_t header[kBatchHeaderSize];
    if (entry.position > facts.log - StoredBatch::kHeaderBytes) return false;
    if (!file.pread_all(header, sizeof header, entry.position).ok()) return false;
    const StoredBatch batch = StoredBatch::parse(header, entry.position);
    if (!batch.check(segment->base_offset, facts.log).ok() || batch.base_offset > entry.offset) return false;
    if (!file.pread_all(header, sizeof header, 0).ok()) return false;
    const StoredBatch first = StoredBatch::parse(header, 0);
    if (!first.check(segment->base_offset, facts.log).ok()) return false;
    tail->size = entry.position;
    tail->first_timestamp = first.max_timestamp;
    tail->offset_entries = segment->offsets.count();
    tail->time_entries = segment->times.count();
    tail->max_timestamp = time.timestamp;
    tail->max_timestamp_offset = time.offset;
    tail->last_time_entry = time.timestamp;
    return true;
  }

  // The newest first: a kill leaves a beginning of the log.
  Status remove_from(size_t first) {
    std::vector<std::shared_ptr<Segment>>& segments = log_->segments_;
    while (segments.size() > first) {
      const int64_t offset = segments.back()->base_offset;
      if (Status status = quarantine_.keep_whole(segment_file_name(offset, ".log")); !status.ok()) return status;
      for (const char* suffix : {".index", ".timeindex", ".txnindex"}) {
        if (Status status = remove(segment_file_name(offset, suffix)); !status.ok()) return status;
      }
      report_.bytes_truncated += files_[offset].log;
      segments.pop_back();
    }
    return sync_directory(dir_);
  }

  Status make_first() {
    end_offset_ = options_.log_start_offset;
    log_->tail_ = SegmentTail();
    log_->closed_bytes_ = 0;
    log_->unfinished_.clear();
    log_->segments_.push_back(
        std::make_shared<Segment>(log_->folder_, end_offset_, options_.log.index_interval));
    std::shared_ptr<File> file;
    log_->folder_dirty_ = true;
    return log_->active().log.create(&file);
  }

  const std::string dir_;
  OpenOptions options_;
  std::unique_ptr<Log> log_;
  Quarantine quarantine_;
  RecoveryReport report_;
  std::map<int64_t, SegmentFiles> files_;
  bool clean_ = false;
  bool changed_ = false;
  bool last_loaded_ = false;
  int64_t end_offset_ = 0;
};

Status Log::open(const std::string& dir, const OpenOptions& options, std::unique_ptr<Log>* out) {
  return LogOpener(dir, options).run(out);
}

}  // namespace broadsheet
