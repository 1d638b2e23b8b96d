#include "log.h"

#include <algorithm>
#include <cassert>

namespace broadsheet {
namespace {

// Write-back is started every so many bytes, so that the writer does not meet the kernel's throttling of dirty pages.
constexpr int64_t kWritebackBytes = 8 << 20;

// The smallest page of any machine.
constexpr int64_t kPageBytes = 4096;

}  // namespace

bool passing(const Status& status) { return status.code == Code::kNoSpace || status.code == Code::kLimit; }

Status FlushJob::run() const {
  for (const std::shared_ptr<Segment>& segment : segments) {
    if (Status status = segment->log.sync(); !status.ok()) return status;
  }
  for (const std::shared_ptr<Segment>& segment : closed) {
    // Short of space the indexes stay short, which is allowed.
    if (Status status = segment->offsets.finish(); !status.ok() && !passing(status)) return status;
    if (Status status = segment->times.finish(); !status.ok() && !passing(status)) return status;
    if (Status status = segment->offsets.sync(); !status.ok()) return status;
    if (Status status = segment->times.sync(); !status.ok()) return status;
  }
  return sync_folder == nullptr ? Status::Ok() : sync_folder->sync();
}

Log::StagedSegment& Log::add_staged(int64_t base_offset, bool is_new, const SegmentTail& tail) {
  if (staged_count_ == staged_.size()) staged_.emplace_back();
  StagedSegment& staged = staged_[staged_count_++];
  staged.base_offset = base_offset;
  staged.is_new = is_new;
  staged.position = tail.size;
  staged.tail = tail;
  staged.parts.clear();
  staged.offsets.clear();
  staged.times.clear();
  staged.segment.reset();
  return staged;
}

bool Log::must_roll(const SegmentTail& tail, int64_t base_offset, const StoredBatch& batch, int64_t now) const {
  if (batch.last_offset() - base_offset > INT32_MAX) return true;
  if (tail.size == 0) return false;
  if (tail.size > options_.segment_bytes - batch.bytes()) return true;
  const int64_t waited =
      tail.first_timestamp >= 0 ? batch.max_timestamp - tail.first_timestamp : now - tail.created_at;
  if (waited > options_.segment_ms) return true;
  // The last slot of the time index is for the entry that a roll adds.
  return static_cast<int64_t>(tail.offset_entries) >= options_.index_bytes / int64_t{OffsetIndex::kEntryBytes} ||
         static_cast<int64_t>(tail.time_entries) >= options_.index_bytes / int64_t{TimeIndex::kEntryBytes} - 1;
}

Status Log::stage(uint8_t* bytes, size_t length, int32_t leader_epoch, int64_t now, Staged* out) {
  if (!offline_.ok()) return Status::Of(Code::kOffline, offline_.context);
  if (length < kBatchHeaderSize) return Status::Of(Code::kInvalidArgument, "less than a batch's header");
  StoredBatch batch = StoredBatch::parse(bytes, 0);
  if (batch.magic != 2 || batch.bytes() < StoredBatch::kHeaderBytes ||
      batch.bytes() > static_cast<int64_t>(length) || batch.last_offset_delta < 0) {
    return Status::Of(Code::kInvalidArgument, "not a checked batch");
  }
  if (batch.bytes() > options_.segment_bytes) {
    return Status::Of(Code::kBatchTooLarge, std::to_string(batch.bytes()) + " bytes do not fit into a segment of " +
                                                std::to_string(options_.segment_bytes));
  }
  if (staged_count_ == 0) add_staged(active().base_offset, false, tail_);
  batch.base_offset = end_offset_;
  StagedSegment* staged = &staged_[staged_count_ - 1];
  out->rolled = must_roll(staged->tail, staged->base_offset, batch, now);
  if (out->rolled) {
    SegmentTail fresh;
    fresh.created_at = now;
    staged = &add_staged(end_offset_, true, fresh);
  }
  out->base_offset = end_offset_;
  set_base_offset(bytes, end_offset_);
  set_leader_epoch(bytes, leader_epoch);
  extend_tail(&staged->tail, batch, options_.index_interval, &staged->offsets, &staged->times);
  staged->parts.push_back({bytes, static_cast<size_t>(batch.bytes())});
  end_offset_ = batch.last_offset() + 1;
  return Status::Ok();
}

Status Log::write(StagedSegment* staged) {
  std::shared_ptr<File> file;
  if (staged->is_new) {
    staged->segment = std::make_shared<Segment>(folder_, staged->base_offset, options_.index_interval);
    if (Status status = staged->segment->log.create(&file); !status.ok()) return status;
  } else {
    staged->segment = segments_.back();
    if (Status status = staged->segment->log.get(&file); !status.ok()) return status;
  }
  if (staged->parts.empty()) return Status::Ok();
  staged->segment->log.mark_dirty(file);
  return file->writev_all(staged->parts.data(), staged->parts.size(), staged->position);
}

Status Log::commit() {
  if (staged_count_ == 0) return Status::Ok();
  for (size_t i = 0; i < staged_count_; ++i) {
    Status status = write(&staged_[i]);
    if (status.ok()) continue;
    if (!passing(status)) offline_ = status;
    cut_back();
    return status;
  }
  for (size_t i = 0; i < staged_count_; ++i) {
    StagedSegment& staged = staged_[i];
    if (staged.is_new) take_segment(std::move(staged.segment));
    Segment& segment = active();
    if (!staged.offsets.empty()) segment.offsets.append(staged.offsets);
    if (!staged.times.empty()) segment.times.append(staged.times);
    staged.segment.reset();
    tail_ = staged.tail;
  }
  staged_count_ = 0;
  written_offset_ = end_offset_;
  return Status::Ok();
}

void Log::cut_back() {
  for (size_t i = staged_count_; i-- > 0;) {
    StagedSegment& staged = staged_[i];
    if (staged.segment == nullptr) continue;
    Status status;
    if (staged.is_new) {
      status = remove_file(staged.segment->log.path());
      if (status.code == Code::kNotFound) status = Status::Ok();
    } else {
      std::shared_ptr<File> file;
      status = staged.segment->log.get(&file);
      cut_segment_ = std::min(cut_segment_, staged.segment->base_offset);
      // Without a descriptor nothing was written.
      status = status.ok() ? file->truncate(tail_.size) : Status::Ok();
    }
    if (!status.ok() && offline_.ok()) offline_ = status;
    staged.segment.reset();
  }
  staged_count_ = 0;
  end_offset_ = written_offset_;
}

void Log::take_segment(std::shared_ptr<Segment> segment) {
  Segment& closed = active();
  if (tail_.max_timestamp > tail_.last_time_entry) {
    closed.times.append({{tail_.max_timestamp, tail_.max_timestamp_offset}});
  }
  closed.active = false;
  closed.closed_size = tail_.size;
  closed_bytes_ += tail_.size;
  unfinished_.push_back(segments_.back());
  segment->active = true;
  segments_.push_back(std::move(segment));
  tail_ = SegmentTail();
  writeback_begins_ = 0;
  folder_dirty_ = true;
  wants_flush_ = true;
}

Status Log::roll(int64_t now) {
  if (!offline_.ok()) return Status::Of(Code::kOffline, offline_.context);
  if (staged_count_ != 0) return Status::Of(Code::kInvalidArgument, "roll with staged batches");
  if (active().base_offset == end_offset_) return Status::Ok();
  SegmentTail fresh;
  fresh.created_at = now;
  add_staged(end_offset_, true, fresh);
  return commit();
}

void Log::set_options(const LogOptions& options) {
  options_ = options;
  options_.segment_bytes = std::min<int64_t>(options_.segment_bytes, INT32_MAX);
}

Status Log::set_log_start_offset(int64_t offset) {
  if (offset > written_offset_) {
    return Status::Of(Code::kOffsetOutOfRange, std::to_string(offset) + " is past the end, " +
                                                   std::to_string(written_offset_));
  }
  log_start_offset_ = std::max(log_start_offset_, offset);
  return Status::Ok();
}

size_t Log::segment_of(int64_t offset) const {
  if (offset >= active().base_offset) return segments_.size() - 1;
  const auto after =
      std::upper_bound(segments_.begin(), segments_.end(), offset,
                       [](int64_t value, const std::shared_ptr<Segment>& s) { return value < s->base_offset; });
  return after == segments_.begin() ? 0 : static_cast<size_t>(after - segments_.begin()) - 1;
}

Status Log::read(int64_t offset, int64_t max_bytes, int64_t up_to, bool min_one_message, ReadResult* out) {
  *out = ReadResult();
  if (offset < log_start_offset_ || offset > end_offset_) {
    out->kind = ReadKind::kOutOfRange;
    return Status::Ok();
  }
  up_to = std::min(up_to, written_offset_);
  if (offset >= up_to) return Status::Ok();
  const auto cold = [out](Status status) {
    if (status.code != Code::kCold) return status;
    out->kind = ReadKind::kCold;
    return Status::Ok();
  };
  for (size_t i = segment_of(offset); i < segments_.size(); ++i) {
    Segment& segment = *segments_[i];
    if (segment.base_offset >= up_to) return Status::Ok();
    const bool last = i + 1 == segments_.size();
    const int64_t size = last ? tail_.size : segment.closed_size;
    StoredBatch first;
    bool found = false;
    if (Status status = segment.locate(offset, size, false, &first, &found); !status.ok()) return cold(status);
    if (!found) continue;  // the offsets up to the next segment are gone
    if (first.last_offset() >= up_to) return Status::Ok();
    int64_t end = size;
    if (up_to < (last ? written_offset_ : segments_[i + 1]->base_offset)) {
      StoredBatch bound;
      bool bounded = false;
      if (Status status = segment.locate(up_to, size, false, &bound, &bounded); !status.ok()) return cold(status);
      if (bounded) end = bound.position;
    }
    int64_t length = std::min(max_bytes, end - first.position);
    if (min_one_message) length = std::max(length, first.bytes());
    if (length <= 0) return Status::Ok();
    std::shared_ptr<File> file;
    if (Status status = segment.log.get(&file); !status.ok()) return status;
    // The first header was read just now without waiting, so its page is there: only what lies behind it is in question.
    const int64_t behind = (first.position / kPageBytes + 1) * kPageBytes;
    if (first.position + length > behind && !file->resident(behind, first.position + length - behind)) {
      out->kind = ReadKind::kCold;
      return Status::Ok();
    }
    out->kind = ReadKind::kRange;
    out->file = std::move(file);
    out->position = first.position;
    out->length = length;
    return Status::Ok();
  }
  return Status::Ok();
}

LogView Log::view() const {
  LogView view;
  view.parts.reserve(segments_.size());
  for (const std::shared_ptr<Segment>& segment : segments_) view.parts.push_back({segment, segment->closed_size});
  view.parts.back().size = tail_.size;
  view.end_offset = written_offset_;
  return view;
}

FlushJob Log::begin_flush() {
  FlushJob job;
  const size_t first = segment_of(std::min(flushed_offset_, cut_segment_));
  for (size_t i = first; i < segments_.size(); ++i) job.segments.push_back(segments_[i]);
  cut_segment_ = INT64_MAX;
  job.closed.swap(unfinished_);
  job.target = written_offset_;
  if (folder_dirty_) job.sync_folder = folder_;
  folder_dirty_ = false;
  wants_flush_ = false;
  return job;
}

void Log::finish_flush(const FlushJob& job, const Status& status) {
  if (!status.ok()) {
    if (offline_.ok()) offline_ = status;
    return;
  }
  if (offline_.ok()) flushed_offset_ = std::max(flushed_offset_, job.target);
}

bool Log::take_writeback(std::shared_ptr<File>* file, int64_t* position, int64_t* length) {
  if (tail_.size - writeback_begins_ < kWritebackBytes) return false;
  // Not the last page: it is still being written to.
  const int64_t end = tail_.size & ~int64_t{4095};
  *position = writeback_begins_;
  *length = end - writeback_begins_;
  writeback_begins_ = end;
  return active().log.get(file).ok();
}

Status Log::finish_indexes() {
  Segment& segment = active();
  if (tail_.max_timestamp > tail_.last_time_entry) {
    segment.times.append({{tail_.max_timestamp, tail_.max_timestamp_offset}});
    tail_.last_time_entry = tail_.max_timestamp;
    ++tail_.time_entries;
  }
  Status offsets = segment.offsets.finish();
  Status times = segment.times.finish();
  if (!offsets.ok()) return offsets;
  if (!times.ok()) return times;
  if (Status status = segment.offsets.sync(); !status.ok()) return status;
  return segment.times.sync();
}

void Log::release() {
  for (const std::shared_ptr<Segment>& segment : segments_) {
    segment->log.release();
    segment->offsets.release();
    segment->times.release();
  }
}

}  // namespace broadsheet
