// Kafka's two sparse indexes of a segment. Big-endian entries, ascending, one per index.interval.bytes of log:
//   .index      8 bytes: relative offset (int32), position (int32)
//   .timeindex 12 bytes: timestamp (int64), relative offset (int32)
//
// Entries are appended with pwrite, a few at a time, and read with pread, a block at a time: a mapping would turn a read
// error of the disk into a SIGBUS. Entries that are not yet in the file are read from memory.
// An index may be shorter than its segment; it must never point where no batch begins, which its user checks.
//
// Any thread may look up while the owner appends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "descriptor_cache.h"
#include "status.h"

namespace broadsheet {

// Blocks of index files that were read lately, of all of the process's: many read the same place, or go on close by. A block
// is known by its file's version, which is never given twice, so that nothing has to be taken out.
class BlockCache {
 public:
  static constexpr size_t kBlockBytes = 4080;  // whole entries of 8 and of 12 bytes

  static BlockCache& instance();
  uint64_t new_version() { return next_version_++; }
  // Calls use(data) if the block's first `bytes` bytes are here.
  template <class Use>
  bool find(uint64_t version, size_t block, size_t bytes, Use use);
  void keep(uint64_t version, size_t block, const uint8_t* data, size_t bytes);

 private:
  static constexpr size_t kSets = 256;  // 4 MiB, which become resident as they are used
  static constexpr size_t kWays = 4;
  struct Slot {
    uint64_t version = 0;  // 0: empty
    size_t block = 0;
    size_t bytes = 0;
    uint8_t* data = nullptr;
  };
  struct Set {
    std::mutex mutex;
    Slot slots[kWays];  // used last first
  };
  Set& set_of(uint64_t version, size_t block) { return sets_[(version * 0x9e3779b97f4a7c15u + block * 0xc2b2ae3d27d4eb4fu) >> 56]; }

  Set sets_[kSets];
  std::atomic<uint64_t> next_version_{1};
};

// The file of entries of one size. Searches hold no lock while they read: whoever appends never waits for their disk. One that
// may not wait gives kCold where it had to, for a disk or for another thread.
class EntryFile {
 public:
  EntryFile(std::shared_ptr<Folder> folder, std::string name, size_t entry_bytes);

  size_t count();
  // Adds whole entries, and writes when enough have come together.
  void append(const std::vector<uint8_t>& entries);
  // Forgets all entries from `count` on, in memory and in the file.
  Status truncate(size_t count);
  // Writes what is in memory only and makes the file end there; makes it if there is none.
  Status finish();
  // Takes the first `count` entries of the file as they are.
  void adopt(size_t count);
  // Takes the file of a closed segment; see OffsetIndex.
  Status adopt_closed(int64_t bytes);
  // Replaces the whole content.
  Status replace(const std::vector<uint8_t>& entries);
  Status sync();

  // The last entry for which holds(entry) is true, copied to `found`, or *any = false; it must be true, then false.
  template <class Holds>
  Status last_that(bool may_wait, Holds holds, uint8_t* found, bool* any);
  // Calls visit(entry) for the entries of an adopted file in turn until it gives false; *count gets how many gave true. Waits.
  template <class Visit>
  Status walk(Visit visit, size_t* count);
  CachedFile& file() { return file_; }
  const CachedFile& file() const { return file_; }

 private:
  static constexpr size_t kPendingBytes = 768;
  static constexpr size_t kMaxEntryBytes = 12;

  // What a search goes by: the entries in the file as they were when it began.
  struct Extent {
    std::shared_ptr<File> file;
    size_t stored;
    bool may_wait;
    uint64_t version;
  };
  // The first entry of a block, once it was read: a search then needs one block.
  struct Fence {
    bool known = false;
    uint8_t entry[kMaxEntryBytes];
  };

  // With the lock held. Writes what is in memory only. On failure it stays there, and the file holds whole entries or is cut
  // back later.
  Status write_pending();
  Status open_or_create(std::shared_ptr<File>* file);
  void reset(size_t count);

  // Reads entries [first, first + count), all stored.
  Status read(const Extent& extent, size_t first, size_t count, uint8_t* out) const;
  Status drop_zero_tail(Extent* extent) const;
  template <class Holds>
  Status search(const Extent& extent, Holds holds, uint8_t* found, bool* any);
  template <class Holds>
  Status find_block(const Extent& extent, size_t blocks, Holds holds, size_t* block);
  template <class Holds>
  const uint8_t* last_of(const uint8_t* entries, size_t count, Holds holds) const;

  CachedFile file_;
  const size_t entry_bytes_;
  std::mutex mutex_;  // guards the next three
  size_t stored_ = 0;
  bool may_have_zero_tail_ = false;
  std::vector<uint8_t> pending_;
  std::atomic<uint64_t> version_;  // another one when stored entries change: what was read meanwhile is void
  std::mutex fences_mutex_;        // guards the next; nothing is read or written under it
  std::vector<Fence> fences_;
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

  size_t count() { return entries_.count(); }
  std::string name() const { return entries_.file().name(); }
  // Adds entries in one go and writes when enough have come together.
  void append(const std::vector<OffsetEntry>& entries);
  // The last entry whose offset is <= offset; {base offset, 0} when there is none.
  Status lookup(int64_t offset, bool may_wait, OffsetEntry* out);
  Status last(bool may_wait, OffsetEntry* out) { return lookup(INT64_MAX, may_wait, out); }
  Status truncate(size_t count) { return entries_.truncate(count); }
  Status replace(const std::vector<OffsetEntry>& entries);
  Status sync() { return entries_.sync(); }
  void release() { entries_.file().release(); }
  Status rename(const std::string& to) { return entries_.file().rename(to); }

  // Takes the file of a closed segment as it is found; `bytes` is its size. Reads nothing: the tail of zeros that a
  // killed Kafka leaves is looked for before the first lookup. kCorrupt when an index cannot have that size.
  Status adopt_closed(int64_t bytes) { return entries_.adopt_closed(bytes); }
  // Takes the file of the last segment. All entries are read: those from the first on that does not ascend, or whose
  // offset is >= below, are dropped. kCorrupt as above.
  Status adopt(int64_t bytes, int64_t segment_bytes, int64_t below);
  // Writes what is in memory only and makes the file end with the last entry; makes it if there is none.
  Status finish() { return entries_.finish(); }

 private:
  OffsetEntry decode(const uint8_t* entry) const;
  std::vector<uint8_t> encode(const std::vector<OffsetEntry>& entries) const;

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

  size_t count() { return entries_.count(); }
  std::string name() const { return entries_.file().name(); }
  void append(const std::vector<TimeEntry>& entries);
  // The last entry whose timestamp is <= timestamp; {-1, base offset} when there is none.
  Status lookup(int64_t timestamp, bool may_wait, TimeEntry* out);
  Status last(bool may_wait, TimeEntry* out) { return lookup(INT64_MAX, may_wait, out); }
  Status truncate(size_t count) { return entries_.truncate(count); }
  Status replace(const std::vector<TimeEntry>& entries);
  Status sync() { return entries_.sync(); }
  void release() { entries_.file().release(); }
  Status rename(const std::string& to) { return entries_.file().rename(to); }
  // As those of OffsetIndex. Entries with an offset > upto are dropped; kCorrupt too when they do not ascend, since what
  // is the largest timestamp is not known then.
  Status adopt_closed(int64_t bytes) { return entries_.adopt_closed(bytes); }
  Status adopt(int64_t bytes, int64_t upto);
  Status finish() { return entries_.finish(); }

 private:
  TimeEntry decode(const uint8_t* entry) const;
  std::vector<uint8_t> encode(const std::vector<TimeEntry>& entries) const;

  EntryFile entries_;
  const int64_t base_offset_;
};

}  // namespace broadsheet
