// A log as it was at one moment: what questions that may wait for a disk are asked of, on any thread, while the loop's
// thread goes on writing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "segment.h"
#include "status.h"

namespace broadsheet {

class LogView {
 public:
  struct Part {
    std::shared_ptr<Segment> segment;
    int64_t size;  // bytes written
  };

  std::vector<Part> parts;  // ascending
  int64_t end_offset = 0;   // written

  // Brings what a read at `offset` needs into the page cache: the indexes, and max_bytes of batches.
  Status warm(int64_t offset, int64_t max_bytes) const;
  // Whole batches from the one that holds `offset` on, below up_to, at least one if there is one.
  Status read_batches(int64_t offset, int64_t max_bytes, int64_t up_to, std::vector<uint8_t>* out) const;
  // The first batch that holds a record with a timestamp >= target, among those that reach to start_offset or past it
  // and end below up_to. Empty if there is none.
  Status find_by_timestamp(int64_t target, int64_t start_offset, int64_t up_to, std::vector<uint8_t>* out) const;
  // The first of those batches whose largest timestamp is the largest of all.
  Status find_by_max_timestamp(int64_t start_offset, int64_t up_to, std::vector<uint8_t>* out) const;
  // Headers of the batches that reach to `from` or past it and begin below up_to.
  Status scan(int64_t from, int64_t up_to, bool producers_only, std::vector<StoredBatch>* out) const;

 private:
  size_t part_of(int64_t offset) const;
  // Calls visit(part, file, batch) from the batch that holds `from` on, until it gives false or a batch begins at
  // up_to or past it.
  template <class Visit>
  Status walk(int64_t from, int64_t up_to, Visit visit) const;
  static bool holds(const Part& part, const TimeEntry& entry);
  static Status copy(const Part& part, const StoredBatch& batch, std::vector<uint8_t>* out);
};

}  // namespace broadsheet
