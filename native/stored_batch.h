// The header of a v2 record batch as it lies in a segment, and a walk over the headers of a segment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "file.h"
#include "record_batch.h"
#include "status.h"

namespace broadsheet {

struct StoredBatch : BatchHeader {
  static constexpr int64_t kHeaderBytes = kBatchHeaderSize;

  int64_t position = 0;  // in the segment

  // Whole batch; may be anything before check().
  int64_t bytes() const { return static_cast<int64_t>(kBatchLengthEnd) + batch_length; }
  bool control() const { return (attributes & kControlBit) != 0; }

  static StoredBatch parse(const uint8_t* header, int64_t position);
  // Whether it can be a batch at its position: kCorrupt says why not. `limit` is where the segment's bytes end.
  Status check(int64_t segment_base_offset, int64_t limit) const;
};

// Walks over the headers of a segment from a batch's beginning on. Without may_wait a header that is not in the page
// cache ends the walk with kCold.
class BatchWalker {
 public:
  BatchWalker(const File& file, int64_t segment_base_offset, int64_t position, int64_t limit, bool may_wait)
      : file_(file), base_offset_(segment_base_offset), position_(position), limit_(limit), may_wait_(may_wait) {}

  // The next batch; *found is false at the limit. kCorrupt at the first header that cannot be one, or where offsets do not
  // ascend: no checksum covers them.
  Status next(StoredBatch* out, bool* found);
  // Where the next batch begins.
  int64_t position() const { return position_; }
  // Offsets did not ascend: this batch's, or the one's before it, was altered.
  bool descends() const { return descends_; }

 private:
  static constexpr int64_t kChunkBytes = 4096;

  const File& file_;
  const int64_t base_offset_;
  int64_t position_;
  const int64_t limit_;
  const bool may_wait_;
  int64_t chunk_begins_ = 0;
  int64_t chunk_ends_ = 0;
  int64_t last_bytes_ = 0;
  int64_t last_offset_ = -1;
  bool descends_ = false;
  uint8_t chunk_[kChunkBytes];
};

}  // namespace broadsheet
