#include "stored_batch.h"

#include <algorithm>
#include <string>

namespace broadsheet {

StoredBatch StoredBatch::parse(const uint8_t* header, int64_t position) {
  StoredBatch batch;
  static_cast<BatchHeader&>(batch) = read_batch_header(header);
  batch.position = position;
  return batch;
}

Status StoredBatch::check(int64_t segment_base_offset, int64_t limit) const {
  const char* fault = nullptr;
  if (magic == 0 || magic == 1) {
    fault = "a message set of an old format (magic 0 or 1), which no directory of Kafka 4 holds";
  } else if (magic != 2) {
    fault = "an unknown magic";
  } else if (bytes() < kHeaderBytes) {
    fault = "a length that is too small";
  } else if (bytes() > limit - position) {
    fault = "a length that reaches past the end";
  } else if (last_offset_delta < 0 || base_offset < segment_base_offset ||
             base_offset - segment_base_offset > INT32_MAX - last_offset_delta) {
    fault = "an offset outside of the segment";
  } else if (record_count < 0) {
    fault = "a negative record count";
  }
  if (fault == nullptr) return Status::Ok();
  return Status::Of(Code::kCorrupt, "the batch at position " + std::to_string(position) + " has " + fault);
}

Status BatchWalker::next(StoredBatch* out, bool* found) {
  *found = false;
  if (position_ >= limit_) return Status::Ok();
  if (limit_ - position_ < StoredBatch::kHeaderBytes) {
    return Status::Of(Code::kCorrupt, "the segment ends within the header at position " + std::to_string(position_));
  }
  if (position_ < chunk_begins_ || position_ + StoredBatch::kHeaderBytes > chunk_ends_) {
    // Behind big batches only headers are worth reading.
    const int64_t want = last_bytes_ > kChunkBytes / 2 ? StoredBatch::kHeaderBytes : kChunkBytes;
    const size_t length = static_cast<size_t>(std::min(want, limit_ - position_));
    size_t got = 0;
    Status status = may_wait_ ? file_.pread_some(chunk_, length, position_, &got)
                              : file_.read_cached(chunk_, length, position_, &got);
    if (status.code == Code::kCold && length > StoredBatch::kHeaderBytes) {
      status = file_.read_cached(chunk_, StoredBatch::kHeaderBytes, position_, &got);
    }
    if (!status.ok()) return status;
    if (got < StoredBatch::kHeaderBytes) {
      return Status::Of(Code::kCorrupt, file_.path() + " is shorter than it was");
    }
    chunk_begins_ = position_;
    chunk_ends_ = position_ + static_cast<int64_t>(got);
  }
  *out = StoredBatch::parse(chunk_ + (position_ - chunk_begins_), position_);
  if (Status status = out->check(base_offset_, limit_); !status.ok()) {
    status.context = file_.path() + ": " + status.context;
    return status;
  }
  if (out->base_offset <= last_offset_) {
    descends_ = true;
    return Status::Of(Code::kCorrupt, file_.path() + ": the batch at position " + std::to_string(position_) +
                                          " does not come after the one before it");
  }
  last_offset_ = out->last_offset();
  last_bytes_ = out->bytes();
  position_ += out->bytes();
  *found = true;
  return Status::Ok();
}

}  // namespace broadsheet
