#include "segment.h"

#include <algorithm>
#include <cstdio>

namespace broadsheet {

std::string segment_file_name(int64_t base_offset, const char* suffix) {
  char name[64];
  std::snprintf(name, sizeof name, "%020lld%s", static_cast<long long>(base_offset), suffix);
  return name;
}

int64_t offset_of_file_name(const std::string& name) {
  constexpr size_t kDigits = 20;
  constexpr int64_t kMaxOffset = int64_t{1} << 53;
  if (name.size() <= kDigits || name[kDigits] != '.') return -1;
  int64_t offset = 0;
  for (size_t i = 0; i < kDigits; ++i) {
    if (name[i] < '0' || name[i] > '9') return -1;
    if (offset > kMaxOffset / 10) return -1;
    offset = offset * 10 + (name[i] - '0');
  }
  return offset < kMaxOffset ? offset : -1;
}

void extend_tail(SegmentTail* tail, const StoredBatch& batch, int64_t index_interval, std::vector<OffsetEntry>* offsets,
                 std::vector<TimeEntry>* times) {
  if (tail->size == 0) tail->first_timestamp = batch.max_timestamp;
  if (batch.max_timestamp > tail->max_timestamp) {
    tail->max_timestamp = batch.max_timestamp;
    tail->max_timestamp_offset = batch.last_offset();
  }
  if (tail->bytes_since_index_entry > index_interval) {
    offsets->push_back({batch.last_offset(), tail->size});
    ++tail->offset_entries;
    if (tail->max_timestamp > tail->last_time_entry) {
      times->push_back({tail->max_timestamp, tail->max_timestamp_offset});
      ++tail->time_entries;
      tail->last_time_entry = tail->max_timestamp;
    }
    tail->bytes_since_index_entry = 0;
  }
  tail->bytes_since_index_entry += batch.bytes();
  tail->size += batch.bytes();
}

Segment::Segment(const std::shared_ptr<Folder>& folder, int64_t base_offset_in, int64_t index_interval,
                 const char* suffix)
    : base_offset(base_offset_in),
      log(folder, segment_file_name(base_offset_in, ".log") + suffix),
      offsets(folder, segment_file_name(base_offset_in, ".index") + suffix, base_offset_in),
      times(folder, segment_file_name(base_offset_in, ".timeindex") + suffix, base_offset_in),
      folder_(folder),
      index_interval_(index_interval) {}

Status Segment::adopt() {
  struct stat facts;
  if (Status status = stat_path(log.path(), &facts); !status.ok()) return status;
  if (facts.st_size > INT32_MAX) return Status::Of(Code::kCorrupt, log.path() + " is larger than a segment can be");
  closed_size = facts.st_size;
  if (Status status = stat_path(folder_->path_of(offsets.name()), &facts); !status.ok()) return status;
  if (Status status = offsets.adopt_closed(facts.st_size); !status.ok()) return status;
  if (Status status = stat_path(folder_->path_of(times.name()), &facts); !status.ok()) return status;
  return times.adopt_closed(facts.st_size);
}

Status Segment::rename(const char* from, const char* to, std::vector<std::string>* names) {
  const auto named = [&](const char* kind, const char* suffix) { return segment_file_name(base_offset, kind) + suffix; };
  const auto note = [&](Status status, const char* kind) {
    if (status.ok() && names != nullptr) names->push_back(named(kind, to));
    return status.code == Code::kNotFound ? Status::Ok() : status;
  };
  std::string transactions = named(".txnindex", from);
  if (Status status = note(folder_->rename_entry(&transactions, named(".txnindex", to)), ".txnindex"); !status.ok()) {
    return status;
  }
  if (Status status = note(offsets.rename(named(".index", to)), ".index"); !status.ok()) return status;
  if (Status status = note(times.rename(named(".timeindex", to)), ".timeindex"); !status.ok()) return status;
  return note(log.rename(named(".log", to)), ".log");
}

Status Segment::last_modified(int64_t* ms) {
  struct stat facts;
  Status status = stat_path(log.path(), &facts);
  if (status.ok()) *ms = int64_t{facts.st_mtim.tv_sec} * 1000 + facts.st_mtim.tv_nsec / 1000000;
  return status;
}

// The index's entry at or below an offset, from which a search may begin: kCorrupt if it points to where no batch can be.
Status Segment::entry_below(int64_t offset, int64_t size, bool may_wait, OffsetEntry* entry) {
  if (Status status = offsets.lookup(offset, may_wait, entry); !status.ok()) return status;
  if (entry->position >= 0 && entry->position <= size - StoredBatch::kHeaderBytes) return Status::Ok();
  // A snapshot of the segment may be older than its index, or empty.
  if (entry->position != 0 && (entry->position < 0 || !active)) return Status::Of(Code::kCorrupt, offsets.name());
  *entry = {base_offset, 0};
  return Status::Ok();
}

Status Segment::locate(int64_t offset, int64_t size, bool may_wait, StoredBatch* out, bool* found) {
  *found = false;
  std::shared_ptr<File> file;
  if (Status status = log.get(&file); !status.ok()) return status;
  for (int attempt = 0;; ++attempt) {
    // The index of the segment that is written to was checked when it was opened: without it, the search is only long.
    if (index_broken_ && !may_wait) return Status::Of(Code::kCold, offsets.name());
    if (index_broken_ && !active && attempt < 2) {
      if (Status status = rebuild_indexes(size); !status.ok()) return status;
    }
    OffsetEntry from{base_offset, 0};
    if (!index_broken_) {
      const Status status = entry_below(offset, size, may_wait, &from);
      if (status.code == Code::kCold || status.code == Code::kLimit) return status;
      // An index that can't be read is made again once, which moves it away from a bad sector.
      if (status.code == Code::kIo && attempt > 0) return status;
      if (!status.ok()) {
        index_broken_ = true;
        continue;
      }
    }
    BatchWalker walker(*file, base_offset, from.position, size, may_wait);
    bool more = false;
    Status status = walker.next(out, &more);
    // An entry is right if it points to a batch that begins at or before its offset.
    const bool misled = status.code == Code::kCorrupt || (status.ok() && (!more || out->base_offset > from.offset));
    if (from.position > 0 && misled) {
      index_broken_ = true;
      continue;
    }
    while (status.ok() && more && out->last_offset() < offset) status = walker.next(out, &more);
    *found = status.ok() && more;
    if (!*found || out->base_offset <= offset) return status;
    // Behind a gap, as compaction leaves one, or altered: what comes next tells.
    StoredBatch next;
    status = walker.next(&next, &more);
    if (!walker.descends() && status.code != Code::kCold) return Status::Ok();
    *found = status.ok();
    return status;
  }
}

Status Segment::rebuild_indexes(int64_t size) {
  std::lock_guard<std::mutex> lock(rebuild_);
  if (!index_broken_) return Status::Ok();  // another thread was faster
  std::shared_ptr<File> file;
  if (Status status = log.get(&file); !status.ok()) return status;
  SegmentTail tail;
  std::vector<OffsetEntry> offset_entries;
  std::vector<TimeEntry> time_entries;
  BatchWalker walker(*file, base_offset, 0, size, true);
  for (;;) {
    StoredBatch batch;
    bool more = false;
    Status status = walker.next(&batch, &more);
    // What cannot be read now will not be found later either: the index ends before it.
    if (!status.ok() && status.code != Code::kCorrupt) return status;
    if (!status.ok() || !more) break;
    extend_tail(&tail, batch, index_interval_, &offset_entries, &time_entries);
  }
  if (tail.max_timestamp > tail.last_time_entry) {
    time_entries.push_back({tail.max_timestamp, tail.max_timestamp_offset});
  }
  if (Status status = offsets.replace(offset_entries); !status.ok()) return status;
  if (Status status = times.replace(time_entries); !status.ok()) return status;
  index_broken_ = false;
  return Status::Ok();
}

Status Segment::largest_timestamp(int64_t size, StoredBatch* out, bool* found) {
  {
    std::lock_guard<std::mutex> lock(facts_);
    if (largest_known_for_ == size) {
      *found = largest_found_;
      *out = largest_;
      return Status::Ok();
    }
  }
  std::shared_ptr<File> file;
  if (Status status = log.get(&file); !status.ok()) return status;
  *found = false;
  // The time index names the batch; whether it is right is seen at the batch, and what came after the last entry is
  // read. When it is not right all headers are read.
  TimeEntry entry{-1, base_offset};
  int64_t position = 0;
  if (times.last(true, &entry).ok() && entry.timestamp >= 0) {
    StoredBatch batch;
    bool there = false;
    if (locate(entry.offset, size, true, &batch, &there).ok() && there && batch.max_timestamp == entry.timestamp &&
        batch.record_count > 0) {
      *out = batch;
      *found = true;
      position = batch.position;
    }
  }
  BatchWalker walker(*file, base_offset, position, size, true);
  for (;;) {
    StoredBatch batch;
    bool more = false;
    if (Status status = walker.next(&batch, &more); !status.ok()) return status;
    if (!more) break;
    if (batch.record_count > 0 && (!*found || batch.max_timestamp > out->max_timestamp)) {
      *out = batch;
      *found = true;
    }
  }
  std::lock_guard<std::mutex> lock(facts_);
  largest_known_for_ = size;
  largest_found_ = *found;
  largest_ = *out;
  return Status::Ok();
}

}  // namespace broadsheet
