#include "sparse_index.h"

#include <algorithm>
#include <cstring>

#include "record_batch.h"

namespace broadsheet {

namespace {

bool is_zero(const uint8_t* bytes, size_t length) {
  return std::all_of(bytes, bytes + length, [](uint8_t byte) { return byte == 0; });
}

}  // namespace

BlockCache& BlockCache::instance() {
  static BlockCache* const cache = new BlockCache;  // outlives the threads that look up
  return *cache;
}

template <class Use>
bool BlockCache::find(uint64_t version, size_t block, size_t bytes, Use use) {
  Set& set = set_of(version, block);
  std::lock_guard<std::mutex> lock(set.mutex);
  for (Slot* slot = set.slots; slot != set.slots + kWays; ++slot) {
    if (slot->version != version || slot->block != block || slot->bytes < bytes) continue;
    use(slot->data);
    std::rotate(set.slots, slot, slot + 1);
    return true;
  }
  return false;
}

void BlockCache::keep(uint64_t version, size_t block, const uint8_t* data, size_t bytes) {
  Set& set = set_of(version, block);
  std::lock_guard<std::mutex> lock(set.mutex);
  Slot* slot = set.slots;
  while (slot != set.slots + kWays - 1 && (slot->version != version || slot->block != block)) ++slot;
  if (!slot->data) slot->data = new uint8_t[kBlockBytes];
  std::memcpy(slot->data, data, bytes);
  *slot = {version, block, bytes, slot->data};
  std::rotate(set.slots, slot, slot + 1);
}

EntryFile::EntryFile(std::shared_ptr<Folder> folder, std::string name, size_t entry_bytes)
    : file_(std::move(folder), std::move(name)), entry_bytes_(entry_bytes), version_(BlockCache::instance().new_version()) {}

size_t EntryFile::count() {
  std::lock_guard<std::mutex> lock(mutex_);
  return stored_ + pending_.size() / entry_bytes_;
}

void EntryFile::append(const std::vector<uint8_t>& entries) {
  std::lock_guard<std::mutex> lock(mutex_);
  pending_.insert(pending_.end(), entries.begin(), entries.end());
  // A failure leaves them in memory: an index is made again from its segment if need be.
  if (pending_.size() >= kPendingBytes) static_cast<void>(write_pending().ok());
}

Status EntryFile::truncate(size_t count) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (count >= stored_) {
    pending_.resize(std::min(pending_.size(), (count - stored_) * entry_bytes_));
    return Status::Ok();
  }
  reset(count);
  std::shared_ptr<File> file;
  if (Status status = open_or_create(&file); !status.ok()) return status;
  return file->truncate(static_cast<int64_t>(count * entry_bytes_));
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

void EntryFile::reset(size_t count) {
  version_ = BlockCache::instance().new_version();
  {
    std::lock_guard<std::mutex> fences(fences_mutex_);
    fences_.clear();
  }
  stored_ = count;
  pending_.clear();
  may_have_zero_tail_ = false;
}

void EntryFile::adopt(size_t count) {
  std::lock_guard<std::mutex> lock(mutex_);
  reset(count);
}

Status EntryFile::adopt_closed(int64_t bytes) {
  if (bytes % static_cast<int64_t>(entry_bytes_) != 0) {
    return Status::Of(Code::kCorrupt, file_.name() + ": " + std::to_string(bytes) + " bytes are not whole entries");
  }
  std::lock_guard<std::mutex> lock(mutex_);
  reset(static_cast<size_t>(bytes) / entry_bytes_);
  may_have_zero_tail_ = true;
  return Status::Ok();
}

Status EntryFile::finish() {
  std::lock_guard<std::mutex> lock(mutex_);
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
  std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<File> file;
  Status status = open_or_create(&file);
  if (!status.ok()) return status;
  reset(0);
  if (status = file->truncate(0); !status.ok()) return status;
  pending_ = entries;
  return write_pending();
}

Status EntryFile::sync() {
  std::shared_ptr<File> file;
  if (Status status = file_.get(&file); !status.ok()) return status;
  return file->fdatasync();
}

Status EntryFile::read(const Extent& extent, size_t first, size_t count, uint8_t* out) const {
  const int64_t position = static_cast<int64_t>(first * entry_bytes_);
  const size_t bytes = count * entry_bytes_;
  size_t got = 0;
  Status status = extent.file->read_cached(out, bytes, position, &got);
  if (status.code == Code::kCold && extent.may_wait) {
    // All of it is wanted soon: a search that may not wait looks at other blocks too.
    const int64_t all = static_cast<int64_t>(extent.stored * entry_bytes_);
    if (Status asked = extent.file->will_need(0, all); !asked.ok()) return asked;
    return extent.file->pread_all(out, bytes, position);
  }
  if (status.ok() && got < bytes) return Status::Of(Code::kCorrupt, file_.name() + " is shorter than it was");
  return status;
}

// Entries ascend, so that a zero one can only be the first or begin the tail.
Status EntryFile::drop_zero_tail(Extent* extent) const {
  uint8_t entry[kMaxEntryBytes];
  const size_t stored = extent->stored;
  size_t low = 0;
  size_t high = stored;
  for (size_t i = high - 1; low < high; i = low + (high - low) / 2) {
    if (Status status = read(*extent, i, 1, entry); !status.ok()) return status;
    const bool zero = is_zero(entry, entry_bytes_);
    if (!zero && i + 1 == stored) break;
    (zero ? high : low) = zero ? i : i + 1;
  }
  extent->stored = high;
  return Status::Ok();
}

// The last entry of a row of them for which it holds; the first one's does.
template <class Holds>
const uint8_t* EntryFile::last_of(const uint8_t* entries, size_t count, Holds holds) const {
  size_t low = 0;
  while (count - low > 1) {
    const size_t middle = low + (count - low) / 2;
    (holds(entries + middle * entry_bytes_) ? low : count) = middle;
  }
  return entries + low * entry_bytes_;
}

template <class Holds>
Status EntryFile::last_that(bool may_wait, Holds holds, uint8_t* found, bool* any) {
  for (;;) {
    *any = false;
    std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
    // Who holds it may be writing to a disk.
    if (may_wait) lock.lock();
    else if (!lock.try_lock()) return Status::Of(Code::kCold, {});
    if (!pending_.empty() && holds(pending_.data())) {
      std::memcpy(found, last_of(pending_.data(), pending_.size() / entry_bytes_, holds), entry_bytes_);
      *any = true;
      return Status::Ok();
    }
    if (stored_ == 0) return Status::Ok();
    Extent extent{{}, stored_, may_wait, version_};
    const bool zero_tail = may_have_zero_tail_;
    lock.unlock();

    Status status = file_.get(&extent.file);
    if (status.ok() && zero_tail) status = drop_zero_tail(&extent);
    if (status.ok()) status = search(extent, holds, found, any);
    if (zero_tail && status.ok()) {
      if (may_wait) lock.lock();
      else static_cast<void>(lock.try_lock());
      if (lock.owns_lock() && extent.version == version_) {
        stored_ = extent.stored;
        may_have_zero_tail_ = false;
      }
    }
    if (extent.version == version_) return status;
    if (!may_wait) return Status::Of(Code::kCold, {});
  }
}

// The block whose first entry holds, if any does, and the next one's does not.
template <class Holds>
Status EntryFile::find_block(const Extent& extent, size_t blocks, Holds holds, size_t* block) {
  const size_t per_block = BlockCache::kBlockBytes / entry_bytes_;
  std::unique_lock<std::mutex> lock(fences_mutex_);
  fences_.resize(std::max(fences_.size(), blocks));
  size_t low = 0;
  size_t high = blocks;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    Fence fence = fences_[middle];
    if (!fence.known) {
      lock.unlock();
      if (Status status = read(extent, middle * per_block, 1, fence.entry); !status.ok()) return status;
      fence.known = true;
      lock.lock();
      if (version_ != extent.version) return Status::Of(Code::kCold, {});
      fences_[middle] = fence;
    }
    (holds(fence.entry) ? low : high) = middle;
  }
  *block = low;
  return Status::Ok();
}

template <class Holds>
Status EntryFile::search(const Extent& extent, Holds holds, uint8_t* found, bool* any) {
  const size_t per_block = BlockCache::kBlockBytes / entry_bytes_;
  const size_t blocks = (extent.stored + per_block - 1) / per_block;
  if (blocks == 0) return Status::Ok();
  size_t block = 0;
  if (Status status = find_block(extent, blocks, holds, &block); !status.ok()) return status;
  const size_t count = std::min(per_block, extent.stored - block * per_block);
  const auto take = [&](const uint8_t* entries) {
    *any = holds(entries);
    if (*any) std::memcpy(found, last_of(entries, count, holds), entry_bytes_);
  };
  BlockCache& cache = BlockCache::instance();
  if (cache.find(extent.version, block, count * entry_bytes_, take)) return Status::Ok();
  uint8_t entries[BlockCache::kBlockBytes];
  if (Status status = read(extent, block * per_block, count, entries); !status.ok()) return status;
  take(entries);
  // What changed while it was read is not what the version stands for.
  if (version_ == extent.version) cache.keep(extent.version, block, entries, count * entry_bytes_);
  return Status::Ok();
}

template <class Visit>
Status EntryFile::walk(Visit visit, size_t* count) {
  *count = 0;
  Extent extent{{}, this->count(), true, version_};
  if (extent.stored == 0) return Status::Ok();
  if (Status status = file_.get(&extent.file); !status.ok()) return status;
  if (Status status = drop_zero_tail(&extent); !status.ok()) return status;
  uint8_t block[BlockCache::kBlockBytes];
  const size_t per_block = BlockCache::kBlockBytes / entry_bytes_;
  while (*count < extent.stored) {
    const size_t wanted = std::min(per_block, extent.stored - *count);
    if (Status status = read(extent, *count, wanted, block); !status.ok()) return status;
    for (size_t i = 0; i < wanted; ++i, ++*count) {
      if (!visit(block + i * entry_bytes_)) return Status::Ok();
    }
  }
  return Status::Ok();
}

OffsetEntry OffsetIndex::decode(const uint8_t* entry) const {
  return {base_offset_ + load_int32(entry), load_int32(entry + 4)};
}

std::vector<uint8_t> OffsetIndex::encode(const std::vector<OffsetEntry>& entries) const {
  std::vector<uint8_t> bytes(entries.size() * kEntryBytes);
  uint8_t* at = bytes.data();
  for (const OffsetEntry& entry : entries) {
    store_int32(at, static_cast<int32_t>(entry.offset - base_offset_));
    store_int32(at + 4, static_cast<int32_t>(entry.position));
    at += kEntryBytes;
  }
  return bytes;
}

void OffsetIndex::append(const std::vector<OffsetEntry>& entries) { entries_.append(encode(entries)); }

Status OffsetIndex::replace(const std::vector<OffsetEntry>& entries) { return entries_.replace(encode(entries)); }

Status OffsetIndex::lookup(int64_t offset, bool may_wait, OffsetEntry* out) {
  uint8_t found[kEntryBytes];
  bool any = false;
  const auto holds = [&](const uint8_t* entry) { return decode(entry).offset <= offset; };
  if (Status status = entries_.last_that(may_wait, holds, found, &any); !status.ok()) return status;
  *out = any ? decode(found) : OffsetEntry{base_offset_, 0};
  return Status::Ok();
}

Status OffsetIndex::adopt(int64_t bytes, int64_t segment_bytes, int64_t below) {
  if (Status status = entries_.adopt_closed(bytes); !status.ok()) return status;
  OffsetEntry before{base_offset_ - 1, 0};
  size_t count = 0;
  const auto fits = [&](const uint8_t* bytes) {
    const OffsetEntry entry = decode(bytes);
    if (entry.offset >= below || entry.offset <= before.offset) return false;
    if (entry.position <= before.position || entry.position >= segment_bytes) return false;
    before = entry;
    return true;
  };
  if (Status status = entries_.walk(fits, &count); !status.ok()) return status;
  entries_.adopt(count);
  return Status::Ok();
}

TimeEntry TimeIndex::decode(const uint8_t* entry) const {
  return {load_int64(entry), base_offset_ + load_int32(entry + 8)};
}

std::vector<uint8_t> TimeIndex::encode(const std::vector<TimeEntry>& entries) const {
  std::vector<uint8_t> bytes(entries.size() * kEntryBytes);
  uint8_t* at = bytes.data();
  for (const TimeEntry& entry : entries) {
    store_int64(at, entry.timestamp);
    store_int32(at + 8, static_cast<int32_t>(entry.offset - base_offset_));
    at += kEntryBytes;
  }
  return bytes;
}

void TimeIndex::append(const std::vector<TimeEntry>& entries) { entries_.append(encode(entries)); }

Status TimeIndex::replace(const std::vector<TimeEntry>& entries) { return entries_.replace(encode(entries)); }

Status TimeIndex::lookup(int64_t timestamp, bool may_wait, TimeEntry* out) {
  uint8_t found[kEntryBytes];
  bool any = false;
  const auto holds = [&](const uint8_t* entry) { return decode(entry).timestamp <= timestamp; };
  if (Status status = entries_.last_that(may_wait, holds, found, &any); !status.ok()) return status;
  *out = any ? decode(found) : TimeEntry{-1, base_offset_};
  return Status::Ok();
}

Status TimeIndex::adopt(int64_t bytes, int64_t upto) {
  if (Status status = entries_.adopt_closed(bytes); !status.ok()) return status;
  TimeEntry before{-1, base_offset_};
  size_t count = 0;
  bool ascends = true;
  const auto fits = [&](const uint8_t* bytes) {
    const TimeEntry entry = decode(bytes);
    ascends = entry.timestamp > before.timestamp && entry.offset >= before.offset;
    if (!ascends || entry.offset > upto) return false;
    before = entry;
    return true;
  };
  if (Status status = entries_.walk(fits, &count); !status.ok()) return status;
  if (!ascends) {
    return Status::Of(Code::kCorrupt, entries_.file().name() + ": entry " + std::to_string(count) +
                                          " does not come after the one before it");
  }
  entries_.adopt(count);
  return Status::Ok();
}

}  // namespace broadsheet
