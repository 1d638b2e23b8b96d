// The budget of descriptors: files of logs that are opened when needed and closed, least recently used
// first, when too many are open. 10,000 partitions are 30,000 files; a process may have 1,024 descriptors.
//
// One cache per process, since the limits are the process's. All of it may be called on any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "file.h"
#include "status.h"

namespace broadsheet {

// A log's folder, shared by its files: a rename reaches those that are opened later.
class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  std::string path() const;
  std::string path_of(const std::string& name) const;
  Status open(const std::string& name, OpenMode mode, std::shared_ptr<File>* out) const;
  Status rename(const std::string& to);
  // Renames an entry; `name` is of whoever asks, and changes with it. Its readers hold the folder's lock.
  Status rename_entry(std::string* name, const std::string& to);
  std::string copy(const std::string& name) const;
  // Makes the folder's entries durable.
  Status sync() const;

 private:
  mutable std::mutex mutex_;
  std::string path_;
};

// A file of a log whose descriptor comes and goes. Whoever got the File holds it: it stays usable when the cache lets go of
// it, and when the file is renamed or deleted.
class CachedFile {
 public:
  CachedFile(std::shared_ptr<Folder> folder, std::string name) : folder_(std::move(folder)), name_(std::move(name)) {}
  ~CachedFile();
  CachedFile(const CachedFile&) = delete;
  CachedFile& operator=(const CachedFile&) = delete;

  std::string name() const { return folder_->copy(name_); }
  std::string path() const { return folder_->path_of(name_); }

  // The open file; opens it again if its descriptor was let go. The file must exist.
  Status get(std::shared_ptr<File>* out);
  // As get(), but makes the file; it must not exist.
  Status create(std::shared_ptr<File>* out);

  // Gives the file another name; who has it open goes on. kNotFound when there is none: it has the name then too.
  Status rename(const std::string& to) { return folder_->rename_entry(&name_, to); }

  // A descriptor with unsynced data is kept open: an error of its write-back could be lost with it. `file` is what
  // get() gave and what is written through.
  void mark_dirty(const std::shared_ptr<File>& file);
  void mark_clean();
  // fdatasync, whether marked or not: what a killed process wrote is not marked. Clears the mark before it begins, so
  // that what is written meanwhile marks it again.
  Status sync();
  // Closes the descriptor.
  void release();

 private:
  friend class DescriptorCache;
  const std::shared_ptr<Folder> folder_;
  std::string name_;  // guarded by the folder's mutex
  // Guarded by the cache's mutex.
  std::shared_ptr<File> file_;
  std::list<CachedFile*>::iterator file_place_;
  bool dirty_ = false;
  Status sync_failure_;  // of a sync that the cache did by itself
};

class DescriptorCache {
 public:
  struct Stats {
    size_t open_files;
    uint64_t forced_syncs;
  };

  static DescriptorCache& instance();
  // A bound for tests; 0 chooses by the process's limits, raising its soft limit of descriptors to the hard one.
  void set_limit(size_t files);
  Stats stats();
  // Whether most of what may be open waits for a sync.
  bool crowded();
  size_t file_limit() const { return file_limit_; }

 private:
  friend class CachedFile;
  DescriptorCache() { set_limit(0); }
  Status open(CachedFile* file, OpenMode mode, std::shared_ptr<File>* out);
  void admit(CachedFile* file);
  void drop_file(CachedFile* file);
  // Closes clean descriptors until at most `target` are left open.
  void shrink_files(size_t target);

  std::mutex mutex_;
  std::list<CachedFile*> clean_;  // open files, least recently used first
  std::list<CachedFile*> dirty_;
  std::atomic<size_t> file_limit_ = 0;
  size_t hard_file_limit_ = 0;
  uint64_t forced_syncs_ = 0;
};

}  // namespace broadsheet
