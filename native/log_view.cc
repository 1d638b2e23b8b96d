#include "log_view.h"

#include <algorithm>
#include <functional>

namespace broadsheet {

size_t LogView::part_of(int64_t offset) const {
  const auto after = std::upper_bound(parts.begin(), parts.end(), offset, [](int64_t value, const Part& part) {
    return value < part.segment->base_offset;
  });
  return after == parts.begin() ? 0 : static_cast<size_t>(after - parts.begin()) - 1;
}

template <class Visit>
Status LogView::walk(int64_t from, int64_t up_to, Visit visit) const {
  for (size_t i = part_of(from); i < parts.size() && parts[i].segment->base_offset < up_to; ++i) {
    const Part& part = parts[i];
    StoredBatch batch;
    bool found = false;
    if (Status status = part.segment->locate(from, part.size, true, &batch, &found); !status.ok()) return status;
    if (!found) continue;
    std::shared_ptr<File> file;
    if (Status status = part.segment->log.get(&file); !status.ok()) return status;
    BatchWalker walker(*file, part.segment->base_offset, batch.position, part.size, true);
    for (;;) {
      bool more = false;
      if (Status status = walker.next(&batch, &more); !status.ok()) return status;
      if (!more) break;
      if (batch.base_offset >= up_to || !visit(part, *file, batch)) return Status::Ok();
    }
  }
  return Status::Ok();
}

Status LogView::copy(const Part& part, const StoredBatch& batch, std::vector<uint8_t>* out) {
  std::shared_ptr<File> file;
  if (Status status = part.segment->log.get(&file); !status.ok()) return status;
  const size_t before = out->size();
  out->resize(before + static_cast<size_t>(batch.bytes()));
  return file->pread_all(out->data() + before, static_cast<size_t>(batch.bytes()), batch.position);
}

Status LogView::warm(int64_t offset, int64_t max_bytes) const {
  constexpr int64_t kScratchBytes = 128 * 1024;
  std::vector<uint8_t> scratch(static_cast<size_t>(kScratchBytes));
  bool done = false;
  for (size_t i = part_of(offset); !done && i < parts.size(); ++i) {
    const Part& part = parts[i];
    StoredBatch batch;
    bool found = false;
    if (Status status = part.segment->locate(offset, part.size, true, &batch, &found); !status.ok()) return status;
    // The end of what is read is looked up too.
    StoredBatch end;
    bool end_found = false;
    if (Status status = part.segment->locate(end_offset - 1, part.size, true, &end, &end_found); !status.ok()) {
      return status;
    }
    if (!found) continue;
    std::shared_ptr<File> file;
    if (Status status = part.segment->log.get(&file); !status.ok()) return status;
    const int64_t last = std::min(part.size, batch.position + std::max(max_bytes, batch.bytes()));
    if (Status status = file->will_need(batch.position, last - batch.position); !status.ok()) return status;
    for (int64_t at = batch.position; at < last; at += kScratchBytes) {
      const size_t length = static_cast<size_t>(std::min(kScratchBytes, last - at));
      if (Status status = file->pread_all(scratch.data(), length, at); !status.ok()) return status;
    }
    done = true;
    // Where it can't be seen without waiting after all, a read has to be a copy.
    if (Status status = part.segment->locate(offset, part.size, false, &batch, &found); !status.ok()) return status;
  }
  return Status::Ok();
}

Status LogView::read_batches(int64_t offset, int64_t max_bytes, int64_t up_to, std::vector<uint8_t>* out) const {
  // Runs of neighbouring batches are read in one go.
  const Part* run_part = nullptr;
  int64_t run_begins = 0;
  int64_t run_ends = 0;
  int64_t total = 0;
  const auto read_run = [&]() -> Status {
    if (run_part == nullptr) return Status::Ok();
    std::shared_ptr<File> file;
    if (Status status = run_part->segment->log.get(&file); !status.ok()) return status;
    const size_t before = out->size();
    out->resize(before + static_cast<size_t>(run_ends - run_begins));
    return file->pread_all(out->data() + before, static_cast<size_t>(run_ends - run_begins), run_begins);
  };
  Status read = Status::Ok();
  Status status = walk(offset, up_to, [&](const Part& part, const File&, const StoredBatch& batch) {
    if (batch.last_offset() >= up_to) return false;
    if (total != 0 && total + batch.bytes() > max_bytes) return false;
    if (&part != run_part) {
      read = read_run();
      if (!read.ok()) return false;
      run_part = &part;
      run_begins = batch.position;
    }
    run_ends = batch.position + batch.bytes();
    total += batch.bytes();
    return total < max_bytes;
  });
  if (!status.ok() && total == 0) return status;  // else what comes before the fault is handed out
  if (read.ok()) read = read_run();
  if (read.ok() || max_bytes <= 1) return read;
  // What lies before the fault is found one batch at a time.
  out->clear();
  return read_batches(offset, 1, up_to, out);
}

// Whether an entry of the time index is true: its batch has its timestamp.
bool LogView::holds(const Part& part, const TimeEntry& entry) {
  if (entry.timestamp < 0) return entry.offset == part.segment->base_offset;
  StoredBatch batch;
  bool found = false;
  return part.segment->locate(entry.offset, part.size, true, &batch, &found).ok() && found &&
         batch.max_timestamp == entry.timestamp;
}

Status LogView::find_by_timestamp(int64_t target, int64_t start_offset, int64_t up_to,
                                  std::vector<uint8_t>* out) const {
  for (size_t i = part_of(start_offset); i < parts.size() && parts[i].segment->base_offset < up_to; ++i) {
    const Part& part = parts[i];
    StoredBatch largest;
    bool found = false;
    if (Status status = part.segment->largest_timestamp(part.size, &largest, &found); !status.ok()) return status;
    if (!found || largest.max_timestamp < target) continue;
    // All records later than the entry's timestamp lie behind its batch.
    TimeEntry entry{-1, part.segment->base_offset};
    if (!part.segment->times.lookup(target, true, &entry).ok() || !holds(part, entry)) {
      part.segment->distrust_indexes();
      entry.offset = part.segment->base_offset;
    }
    int64_t from = std::max(start_offset, entry.offset);
    for (;;) {
      StoredBatch hit;
      bool matched = false;
      const LogView only{{part}, end_offset};
      Status status = only.walk(from, up_to, [&](const Part&, const File&, const StoredBatch& batch) {
        matched = batch.record_count > 0 && batch.max_timestamp >= target && batch.last_offset() < up_to;
        if (matched) hit = batch;
        return !matched;
      });
      if (!status.ok()) return status;
      if (matched) return copy(part, hit, out);
      // Nothing behind the entry though the segment has one: it lies before start_offset or past up_to, or the time
      // index is wrong. Once more without it.
      if (from == std::max(start_offset, part.segment->base_offset)) break;
      from = std::max(start_offset, part.segment->base_offset);
    }
  }
  return Status::Ok();
}

Status LogView::find_by_max_timestamp(int64_t start_offset, int64_t up_to, std::vector<uint8_t>* out) const {
  const Part* best_part = nullptr;
  StoredBatch best;
  for (size_t i = part_of(start_offset); i < parts.size() && parts[i].segment->base_offset < up_to; ++i) {
    const Part& part = parts[i];
    StoredBatch largest;
    bool found = false;
    const bool whole = part.segment->base_offset >= start_offset &&
                       (i + 1 < parts.size() ? parts[i + 1].segment->base_offset : end_offset) <= up_to;
    if (whole) {
      if (Status status = part.segment->largest_timestamp(part.size, &largest, &found); !status.ok()) return status;
    } else {
      const LogView only{{part}, end_offset};
      Status status = only.walk(start_offset, up_to, [&](const Part&, const File&, const StoredBatch& batch) {
        if (batch.record_count > 0 && batch.last_offset() < up_to &&
            (!found || batch.max_timestamp > largest.max_timestamp)) {
          largest = batch;
          found = true;
        }
        return true;
      });
      if (!status.ok()) return status;
    }
    if (found && (best_part == nullptr || largest.max_timestamp > best.max_timestamp)) {
      best = largest;
      best_part = &part;
    }
  }
  return best_part == nullptr ? Status::Ok() : copy(*best_part, best, out);
}

Status LogView::scan(int64_t from, int64_t up_to, bool producers_only, std::vector<StoredBatch>* out) const {
  return walk(from, up_to, [&](const Part&, const File&, const StoredBatch& batch) {
    if (!producers_only || batch.producer_id >= 0 || batch.control()) out->push_back(batch);
    return true;
  });
}

}  // namespace broadsheet
