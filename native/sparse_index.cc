#include "sparse_index.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "record_batch.h"

namespace broadsheet {

namespace {

bool is_zero(const uint8_t* bytes, size_t length) {
  return std::all_of(bytes, bytes + length, [](uint8_t byte) { return byte == 0; });
}

// The number of entries before a tail of zero entries.
size_t without_zero_tail(const EntryFile::View& view) {
  const auto zero = [&view](size_t i) { return is_zero(view.at(i), view.entry_bytes); };
  if (view.count == 0 || !zero(view.count - 1)) return view.count;
  // Entries ascend, so that a zero one can only be the first or begin the tail.
  size_t low = 0;
  size_t high = view.count - 1;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (zero(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// The number of entries at the front for which holds(i) is true; holds must be true then false.
template <class Holds>
size_t partition_point(size_t count, Holds holds) {
  size_t low = 0;
  while (low < count) {
    const size_t middle = low + (count - low) / 2;
    if (holds(middle)) {
      low = middle + 1;
    } else {
      count = middle;
    }
  }
  return low;
}

}  // namespace

EntryFile::EntryFile(std::shared_ptr<Folder> folder, std::string name, size_t entry_bytes)
    : file_(std::move(folder), std::move(name)), entry_bytes_(entry_bytes) {}

void EntryFile::append(const uint8_t* entry) { pending_.insert(pending_.end(), entry, entry + entry_bytes_); }

Status EntryFile::truncate(size_t count) {
  if (count >= stored_) {
    pending_.resize(std::min(pending_.size(), (count - stored_) * entry_bytes_));
    return Status::Ok();
  }
  return adopt_and_cut(count);
}

Status EntryFile::open_or_create(std::shared_ptr<File>* file) {
  Status status = file_.get(file);
  return status.code == Code::kNotFound ? file_.create(file) : status;
}

Status EntryFile::write_pending() {
  if (pending_.empty()) return Status::Ok();
  std::shared_ptr<File> file;
  if (Status status = open_or_create(&file); !status.ok()) return status;
  if (Status status = file->pwrite_all(pending_.data(), pending_.size(), static_cast<int64_t>(stored_ * entry_bytes_));
      !status.ok()) {
    return status;
  }
  stored_ += pending_.size() / entry_bytes_;
  pending_.clear();
  return Status::Ok();
}

void EntryFile::adopt(size_t count) {
  stored_ = count;
  pending_.clear();
  may_have_zero_tail_ = false;
}

Status EntryFile::adopt_closed(int64_t bytes) {
  if (bytes % static_cast<int64_t>(entry_bytes_) != 0) {
    return Status::Of(Code::kCorrupt, file_.name() + ": " + std::to_string(bytes) + " bytes are not whole entries");
  }
  adopt(static_cast<size_t>(bytes) / entry_bytes_);
  may_have_zero_tail_ = true;
  return Status::Ok();
}

Status EntryFile::adopt_and_cut(size_t count) {
  adopt(count);
  std::shared_ptr<File> file;
  if (Status status = open_or_create(&file); !status.ok()) return status;
  return file->truncate(static_cast<int64_t>(count * entry_bytes_));
}

Status EntryFile::finish() {
  Status status = write_pending();
  std::shared_ptr<File> file;
  if (Status opened = open_or_create(&file); !opened.ok()) return opened;
  int64_t bytes = 0;
  if (Status sized = file->size(&bytes); !sized.ok()) return sized;
  const int64_t wanted = static_cast<int64_t>(stored_ * entry_bytes_);
  if (bytes != wanted) {
    if (Status cut = file->truncate(wanted); !cut.ok()) return cut;
  }
  return status;
}

Status EntryFile::replace(const std::vector<uint8_t>& entries) {
  std::shared_ptr<File> file;
  Status status = open_or_create(&file);
  if (!status.ok()) return status;
  adopt(0);
  if (status = file->truncate(0); !status.ok()) return status;
  pending_ = entries;
  return write_pending();
}

Status EntryFile::view(bool may_wait, View* out) {
  out->entry_bytes = entry_bytes_;
  out->stored_count = stored_;
  out->pending = pending_.data();
  out->count = count();
  if (stored_ == 0) return Status::Ok();
  const size_t bytes = stored_ * entry_bytes_;
  bool fresh = false;
  // A file that grows is mapped in doubling steps; what lies beyond its end is never touched.
  const size_t length = (std::bit_ceil(bytes) + 4095) & ~size_t{4095};
  if (Status status = file_.map(bytes, length, &out->hold, &fresh); !status.ok()) return status;
  out->stored = out->hold->data();
  if (!may_wait && fresh) {
    std::shared_ptr<File> file;
    if (Status status = file_.get(&file); !status.ok()) return status;
    if (!file->resident(0, static_cast<int64_t>(bytes))) {
      file_.unmap();  // so that it is looked at again
      return Status::Of(Code::kCold, file_.name());
    }
  }
  if (may_wait && fresh) {
    // Every page is brought in here, so that no lookup on the loop's thread waits for one.
    volatile uint8_t sum = 0;
    for (size_t at = 0; at < bytes; at += 4096) sum = sum + out->stored[at];
  }
  if (may_have_zero_tail_) {
    may_have_zero_tail_ = false;
    stored_ = without_zero_tail(*out);
    out->stored_count = stored_;
    out->count = stored_;
  }
  return Status::Ok();
}

OffsetEntry OffsetIndex::decode(const uint8_t* entry) const {
  return {base_offset_ + load_int32(entry), load_int32(entry + 4)};
}

size_t OffsetIndex::count() {
  std::lock_guard<std::mutex> lock(mutex_);
  return entries_.count();
}

void OffsetIndex::append(const std::vector<OffsetEntry>& entries) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const OffsetEntry& entry : entries) {
    uint8_t bytes[kEntryBytes];
    store_int32(bytes, static_cast<int32_t>(entry.offset - base_offset_));
    store_int32(bytes + 4, static_cast<int32_t>(entry.position));
    entries_.append(bytes);
  }
  // A failure leaves them in memory: an index is made again from its segment if need be.
  if (entries_.wants_write()) static_cast<void>(entries_.write_pending().ok());
}

Status OffsetIndex::write_pending() {
  std::lock_guard<std::mutex> lock(mutex_);
  return entries_.write_pending();
}

Status OffsetIndex::lookup(int64_t offset, bool may_wait, OffsetEntry* out) {
  std::lock_guard<std::mutex> lock(mutex_);
  EntryFile::View view;
  if (Status status = entries_.view(may_wait, &view); !status.ok()) return status;
  const size_t found = partition_point(view.count, [&](size_t i) { return decode(view.at(i)).offset <= offset; });
  *out = found == 0 ? OffsetEntry{base_offset_, 0} : decode(view.at(found - 1));
  return Status::Ok();
}

Status OffsetIndex::truncate(size_t count) {
  std::lock_guard<std::mutex> lock(mutex_);
  return entries_.truncate(count);
}

Status OffsetIndex::replace(const std::vector<OffsetEntry>& entries) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<uint8_t> bytes(entries.size() * kEntryBytes);
  for (size_t i = 0; i < entries.size(); ++i) {
    store_int32(&bytes[i * kEntryBytes], static_cast<int32_t>(entries[i].offset - base_offset_));
    store_int32(&bytes[i * kEntryBytes + 4], static_cast<int32_t>(entries[i].position));
  }
  return entries_.replace(bytes);
}

Status OffsetIndex::sync() {
  std::shared_ptr<File> file;
  if (Status status = entries_.file().get(&file); !status.ok()) return status;
  return file->fdatasync();
}

void OffsetIndex::release() { entries_.file().release(); }

Status OffsetIndex::adopt_closed(int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  return entries_.adopt_closed(bytes);
}

Status OffsetIndex::adopt(int64_t bytes, int64_t segment_bytes, int64_t below) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Status status = entries_.adopt_closed(bytes); !status.ok()) return status;
  EntryFile::View view;
  if (Status status = entries_.view(true, &view); !status.ok()) return status;
  OffsetEntry before{base_offset_ - 1, 0};
  size_t count = 0;
  for (; count < view.count; ++count) {
    const OffsetEntry entry = decode(view.at(count));
    if (entry.offset >= below || entry.offset <= before.offset) break;
    if (entry.position <= before.position || entry.position >= segment_bytes) break;
    before = entry;
  }
  entries_.adopt(count);
  return Status::Ok();
}

Status OffsetIndex::finish() {
  std::lock_guard<std::mutex> lock(mutex_);
  return entries_.finish();
}

TimeEntry TimeIndex::decode(const uint8_t* entry) const {
  return {load_int64(entry), base_offset_ + load_int32(entry + 8)};
}

size_t TimeIndex::count() {
  std::lock_guard<std::mutex> lock(mutex_);
  return entries_.count();
}

void TimeIndex::append(const std::vector<TimeEntry>& entries) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const TimeEntry& entry : entries) {
    uint8_t bytes[kEntryBytes];
    store_int64(bytes, entry.timestamp);
    store_int32(bytes + 8, static_cast<int32_t>(entry.offset - base_offset_));
    entries_.append(bytes);
  }
  if (entries_.wants_write()) static_cast<void>(entries_.write_pending().ok());
}

Status TimeIndex::write_pending() {
  std::lock_guard<std::mutex> lock(mutex_);
  return entries_.write_pending();
}

Status TimeIndex::lookup(int64_t timestamp, bool may_wait, TimeEntry* out) {
  std::lock_guard<std::mutex> lock(mutex_);
  EntryFile::View view;
  if (Status status = entries_.view(may_wait, &view); !status.ok()) return status;
  const size_t found = partition_point(view.count, [&](size_t i) { return decode(view.at(i)).timestamp <= timestamp; });
  *out = found == 0 ? TimeEntry{-1, base_offset_} : decode(view.at(found - 1));
  return Status::Ok();
}

Status TimeIndex::truncate(size_t count) {
  std::lock_guard<std::mutex> lock(mutex_);
  return entries_.truncate(count);
}

Status TimeIndex::replace(const std::vector<TimeEntry>& entries) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<uint8_t> bytes(entries.size() * kEntryBytes);
  for (size_t i = 0; i < entries.size(); ++i) {
    store_int64(&bytes[i * kEntryBytes], entries[i].timestamp);
    store_int32(&bytes[i * kEntryBytes + 8], static_cast<int32_t>(entries[i].offset - base_offset_));
  }
  return entries_.replace(bytes);
}

Status TimeIndex::sync() {
  std::shared_ptr<File> file;
  if (Status status = entries_.file().get(&file); !status.ok()) return status;
  return file->fdatasync();
}

void TimeIndex::release() { entries_.file().release(); }

Status TimeIndex::adopt_closed(int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  return entries_.adopt_closed(bytes);
}

Status TimeIndex::adopt(int64_t bytes, int64_t upto) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Status status = entries_.adopt_closed(bytes); !status.ok()) return status;
  EntryFile::View view;
  if (Status status = entries_.view(true, &view); !status.ok()) return status;
  TimeEntry before{-1, base_offset_};
  size_t count = 0;
  for (; count < view.count; ++count) {
    const TimeEntry entry = decode(view.at(count));
    if (entry.timestamp <= before.timestamp || entry.offset < before.offset) {
      return Status::Of(Code::kCorrupt, entries_.file().name() + ": entry " + std::to_string(count) +
                                            " does not come after the one before it");
    }
    if (entry.offset > upto) break;
    before = entry;
  }
  entries_.adopt(count);
  return Status::Ok();
}

Status TimeIndex::finish() {
  std::lock_guard<std::mutex> lock(mutex_);
  return entries_.finish();
}

}  // namespace broadsheet
