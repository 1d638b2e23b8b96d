// One segment of a log: `%020d.log` and its two indexes. Knows where an offset lies and what a run of batches holds;
// the Log decides what is written.
//
// The Log writes on the loop's thread. All const-like questions (locate, facts) may be asked on any thread; how many
// bytes of the segment are to be believed is handed in.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "descriptor_cache.h"
#include "sparse_index.h"
#include "status.h"
#include "stored_batch.h"

namespace broadsheet {

// `%020d` + suffix.
std::string segment_file_name(int64_t base_offset, const char* suffix);
// The offset before the first dot; -1 if the name does not begin with 20 digits and a dot, or is past 2^53.
int64_t offset_of_file_name(const std::string& name);

// What is known about the end of a segment that is written to. A value, so that a failed tick is undone by
// assignment.
struct SegmentTail {
  int64_t size = 0;
  int64_t bytes_since_index_entry = 0;
  int64_t max_timestamp = -1;         // of all batches
  int64_t max_timestamp_offset = -1;  // last offset of the first batch that has it
  int64_t first_timestamp = -1;       // maxTimestamp of the first batch; segment.ms counts from it
  int64_t created_at = 0;             // ms; segment.ms counts from here when first_timestamp is < 0
  size_t offset_entries = 0;
  size_t time_entries = 0;
  int64_t last_time_entry = -1;  // timestamp
};

// Adds a batch at the tail's end: gives the index entries that it brings, Kafka's way.
void extend_tail(SegmentTail* tail, const StoredBatch& batch, int64_t index_interval, std::vector<OffsetEntry>* offsets,
                 std::vector<TimeEntry>* times);

class Segment {
 public:
  // `suffix` follows the names of its files: ".cleaned" for one that waits to be put into a log.
  Segment(const std::shared_ptr<Folder>& folder, int64_t base_offset, int64_t index_interval, const char* suffix = "");

  const int64_t base_offset;
  CachedFile log;
  OffsetIndex offsets;
  TimeIndex times;
  std::atomic<bool> active{false};
  int64_t closed_size = 0;  // bytes, once it is closed; for the loop's thread

  // The first batch whose last offset is >= offset, among those in the first `size` bytes. Without may_wait kCold when
  // anything needed is not in the page cache. An index that does not check out is made again (with may_wait) or
  // answered with kCold.
  Status locate(int64_t offset, int64_t size, bool may_wait, StoredBatch* out, bool* found);

  // Takes the files of a closed segment as they are found. Waits.
  Status adopt();
  // Gives its files, the transaction index with them, names that end in `to` instead of `from`; the segment itself comes
  // last. Who reads it goes on. Waits. `names`, if given, gets those that there are.
  Status rename(const char* from, const char* to, std::vector<std::string>* names);
  // When its file was last written to, ms since the epoch. Waits.
  Status last_modified(int64_t* ms);

  // Says that the indexes do not check out.
  void distrust_indexes() { index_broken_ = true; }
  // Makes both indexes again, when they do not check out, from the headers in the first `size` bytes. Waits.
  Status rebuild_indexes(int64_t size);

  // The largest timestamp among the batches in the first `size` bytes that hold records, and the first batch that has
  // it. *found is false when there is none. Waits. Closed segments remember the answer.
  Status largest_timestamp(int64_t size, StoredBatch* out, bool* found);

 private:
  Status entry_below(int64_t offset, int64_t size, bool may_wait, OffsetEntry* entry);

  const std::shared_ptr<Folder> folder_;
  const int64_t index_interval_;
  std::atomic<bool> index_broken_{false};
  std::mutex rebuild_;

  std::mutex facts_;
  int64_t largest_known_for_ = -1;  // size for which largest_ holds
  bool largest_found_ = false;
  StoredBatch largest_;
};

}  // namespace broadsheet
