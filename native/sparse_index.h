// Kafka's two sparse indexes of a segment. Big-endian entries, ascending, one per index.interval.bytes of log:
//   .index      8 bytes: relative offset (int32), position (int32)
//   .timeindex 12 bytes: timestamp (int64), relative offset (int32)
//
// Entries are appended with pwrite, a few at a time, and read through a read-only mapping bounded by the number of
// entries; nothing is stored through a mapping. Entries that are not yet in the file are read from memory.
// An index may be shorter than its segment; it must never point where no batch begins, which its user checks.
//
// Any thread may look up while the owner appends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "descriptor_cache.h"
#include "status.h"

namespace broadsheet {

// The file of entries of one size.
class EntryFile {
 public:
  EntryFile(std::shared_ptr<Folder> folder, std::string name, size_t entry_bytes);

  size_t count() const { return stored_ + pending_.size() / entry_bytes_; }
  void append(const uint8_t* entry);
  // Forgets all entries from `count` on, in memory and in the file.
  Status truncate(size_t count);
  // Writes what is in memory only. On failure it stays there, and the file holds whole entries or is cut back later.
  Status write_pending();
  bool wants_write() const { return pending_.size() >= kPendingBytes; }
  // Writes what is in memory only and makes the file end there; makes it if there is none.
  Status finish();
  // Takes the first `count` entries of the file as they are.
  void adopt(size_t count);
  // As that, and cuts off what follows them.
  Status adopt_and_cut(size_t count);
  // Replaces the whole content.
  Status replace(const std::vector<uint8_t>& entries);

  // Entries in a row, valid while `hold` is. Without `may_wait`, kCold when the file is not in the page cache.
  struct View {
    const uint8_t* stored = nullptr;
    size_t stored_count = 0;
    const uint8_t* pending = nullptr;
    size_t count = 0;
    size_t entry_bytes = 0;
    std::shared_ptr<const Mapping> hold;
    const uint8_t* at(size_t i) const {
      return i < stored_count ? stored + i * entry_bytes : pending + (i - stored_count) * entry_bytes;
    }
  };
  Status view(bool may_wait, View* out);
  // Takes the file of a closed segment; see OffsetIndex.
  Status adopt_closed(int64_t bytes);
  CachedFile& file() { return file_; }
  const CachedFile& file() const { return file_; }

 private:
  static constexpr size_t kPendingBytes = 768;

  Status open_or_create(std::shared_ptr<File>* file);

  CachedFile file_;
  const size_t entry_bytes_;
  size_t stored_ = 0;
  bool may_have_zero_tail_ = false;
  std::vector<uint8_t> pending_;
};

struct OffsetEntry {
  int64_t offset;    // the last offset of the batch (or run of batches) that begins at
  int64_t position;  // this position
};

class OffsetIndex {
 public:
  static constexpr size_t kEntryBytes = 8;
  OffsetIndex(std::shared_ptr<Folder> folder, const std::string& name, int64_t base_offset)
      : entries_(std::move(folder), name, kEntryBytes), base_offset_(base_offset) {}

  size_t count();
  std::string name() const { return entries_.file().name(); }
  // Adds entries in one go and writes when enough have come together.
  void append(const std::vector<OffsetEntry>& entries);
  Status write_pending();
  // The last entry whose offset is <= offset; {base offset, 0} when there is none.
  Status lookup(int64_t offset, bool may_wait, OffsetEntry* out);
  Status last(bool may_wait, OffsetEntry* out) { return lookup(INT64_MAX, may_wait, out); }
  Status truncate(size_t count);
  Status replace(const std::vector<OffsetEntry>& entries);
  Status sync();
  void release();
  Status rename(const std::string& to) { return entries_.file().rename(to); }

  // Takes the file of a closed segment as it is found; `bytes` is its size. Reads nothing: the tail of zeros that a
  // killed Kafka leaves is looked for before the first lookup. kCorrupt when an index cannot have that size.
  Status adopt_closed(int64_t bytes);
  // Takes the file of the last segment. All entries are read: those from the first on that does not ascend, or whose
  // offset is >= below, are dropped. kCorrupt as above.
  Status adopt(int64_t bytes, int64_t segment_bytes, int64_t below);
  // Writes what is in memory only and makes the file end with the last entry; makes it if there is none.
  Status finish();

 private:
  OffsetEntry decode(const uint8_t* entry) const;

  std::mutex mutex_;
  EntryFile entries_;
  const int64_t base_offset_;
};

struct TimeEntry {
  int64_t timestamp;  // the largest up to here
  int64_t offset;     // last offset of the first batch that has it
};

class TimeIndex {
 public:
  static constexpr size_t kEntryBytes = 12;
  TimeIndex(std::shared_ptr<Folder> folder, const std::string& name, int64_t base_offset)
      : entries_(std::move(folder), name, kEntryBytes), base_offset_(base_offset) {}

  size_t count();
  std::string name() const { return entries_.file().name(); }
  void append(const std::vector<TimeEntry>& entries);
  Status write_pending();
  // The last entry whose timestamp is <= timestamp; {-1, base offset} when there is none.
  Status lookup(int64_t timestamp, bool may_wait, TimeEntry* out);
  Status last(bool may_wait, TimeEntry* out) { return lookup(INT64_MAX, may_wait, out); }
  Status truncate(size_t count);
  Status replace(const std::vector<TimeEntry>& entries);
  Status sync();
  void release();
  Status rename(const std::string& to) { return entries_.file().rename(to); }
  // As those of OffsetIndex. Entries with an offset > upto are dropped; kCorrupt too when they do not ascend, since what
  // is the largest timestamp is not known then.
  Status adopt_closed(int64_t bytes);
  Status adopt(int64_t bytes, int64_t upto);
  Status finish();

 private:
  TimeEntry decode(const uint8_t* entry) const;

  std::mutex mutex_;
  EntryFile entries_;
  const int64_t base_offset_;
};

}  // namespace broadsheet
