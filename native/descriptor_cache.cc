#include "descriptor_cache.h"

#include <sys/resource.h>

#include <algorithm>

namespace broadsheet {

std::string Folder::path() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return path_;
}

std::string Folder::path_of(const std::string& name) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return path_ + "/" + name;
}

Status Folder::open(const std::string& name, OpenMode mode, std::shared_ptr<File>* out) const {
  // Held while opening: a rename falls before or after it.
  std::lock_guard<std::mutex> lock(mutex_);
  return File::open(path_ + "/" + name, mode, out);
}

Status Folder::rename(const std::string& to) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Status status = rename_path(path_, to); !status.ok()) return status;
  const std::string from = std::move(path_);
  path_ = to;
  if (Status status = sync_directory(parent_of(to)); !status.ok()) return status;
  return parent_of(from) == parent_of(to) ? Status::Ok() : sync_directory(parent_of(from));
}

Status Folder::rename_entry(std::string* name, const std::string& to) {
  std::lock_guard<std::mutex> lock(mutex_);
  Status status = rename_path(path_ + "/" + *name, path_ + "/" + to);
  if (status.ok() || status.code == Code::kNotFound) *name = to;
  return status;
}

std::string Folder::copy(const std::string& name) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return name;
}

Status Folder::sync() const {
  std::shared_ptr<File> folder;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (Status status = File::open(path_, OpenMode::kRead, &folder); !status.ok()) return status;
  }
  return folder->fsync();
}

CachedFile::~CachedFile() { release(); }

Status CachedFile::get(std::shared_ptr<File>* out) {
  return DescriptorCache::instance().open(this, OpenMode::kReadWrite, out);
}

Status CachedFile::create(std::shared_ptr<File>* out) {
  return DescriptorCache::instance().open(this, OpenMode::kCreateNew, out);
}

void CachedFile::mark_dirty(const std::shared_ptr<File>& file) {
  DescriptorCache& cache = DescriptorCache::instance();
  std::lock_guard<std::mutex> lock(cache.mutex_);
  if (dirty_) return;
  dirty_ = true;
  if (file_) {
    cache.dirty_.splice(cache.dirty_.end(), cache.clean_, file_place_);
  } else {  // evicted since get()
    file_ = file;
    cache.admit(this);
  }
}

void CachedFile::mark_clean() {
  DescriptorCache& cache = DescriptorCache::instance();
  std::lock_guard<std::mutex> lock(cache.mutex_);
  if (!dirty_) return;
  dirty_ = false;
  if (file_) cache.clean_.splice(cache.clean_.end(), cache.dirty_, file_place_);
}

Status CachedFile::sync() {
  DescriptorCache& cache = DescriptorCache::instance();
  {
    std::lock_guard<std::mutex> lock(cache.mutex_);
    if (!sync_failure_.ok()) return sync_failure_;
  }
  std::shared_ptr<File> file;  // held: the mark may go, the descriptor does not
  if (Status status = get(&file); !status.ok()) return status;
  mark_clean();
  return file->fdatasync();
}

void CachedFile::release() {
  DescriptorCache& cache = DescriptorCache::instance();
  std::lock_guard<std::mutex> lock(cache.mutex_);
  if (file_) cache.drop_file(this);
  dirty_ = false;
}

DescriptorCache& DescriptorCache::instance() {
  // Never destroyed: files of environments that end late still use it.
  static DescriptorCache* cache = new DescriptorCache;
  return *cache;
}

void DescriptorCache::set_limit(size_t files) {
  std::lock_guard<std::mutex> lock(mutex_);
  struct rlimit limit{};
  size_t available = 1024;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    if (limit.rlim_cur < limit.rlim_max) {
      const struct rlimit raised{limit.rlim_max, limit.rlim_max};
      if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
    }
    available = static_cast<size_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
  }
  // Half is for log files, the rest for sockets and the host; dirty ones may take half of that rest.
  file_limit_ = files != 0 ? files : std::max<size_t>(available / 2, 16);
  hard_file_limit_ = files != 0 ? files + files / 2 : std::max<size_t>(available / 4 * 3, 24);
  shrink_files(file_limit_);
}

DescriptorCache::Stats DescriptorCache::stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  return {clean_.size() + dirty_.size(), forced_syncs_};
}

bool DescriptorCache::crowded() {
  std::lock_guard<std::mutex> lock(mutex_);
  return dirty_.size() > file_limit_ / 4 * 3;
}

Status DescriptorCache::open(CachedFile* file, OpenMode mode, std::shared_ptr<File>* out) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (file->file_) {
      std::list<CachedFile*>& list = file->dirty_ ? dirty_ : clean_;
      list.splice(list.end(), list, file->file_place_);
      *out = file->file_;
      return Status::Ok();
    }
  }
  std::shared_ptr<File> opened;
  Status status = file->folder_->open(file->name_, mode, &opened);
  if (status.code == Code::kLimit) {
    // Something else took the process's descriptors: give back what can be given.
    {
      std::lock_guard<std::mutex> lock(mutex_);
      shrink_files(0);
    }
    status = file->folder_->open(file->name_, mode, &opened);
  }
  if (!status.ok()) return status;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!file->file_) {  // else another thread was faster; its descriptor is the one to keep
    file->file_ = std::move(opened);
    admit(file);
  }
  *out = file->file_;
  return Status::Ok();
}

void DescriptorCache::admit(CachedFile* file) {
  // Keep what is about to be used out of the way of the eviction below.
  shrink_files(file_limit_ - 1);
  while (clean_.size() + dirty_.size() >= hard_file_limit_ && !dirty_.empty()) {
    // Only dirty ones are left: the oldest is synced here and now. Slow, and right.
    CachedFile* oldest = dirty_.front();
    oldest->dirty_ = false;
    if (Status status = oldest->file_->fdatasync(); !status.ok()) oldest->sync_failure_ = std::move(status);
    ++forced_syncs_;
    clean_.splice(clean_.begin(), dirty_, oldest->file_place_);
    drop_file(oldest);
  }
  std::list<CachedFile*>& list = file->dirty_ ? dirty_ : clean_;
  file->file_place_ = list.insert(list.end(), file);
}

void DescriptorCache::drop_file(CachedFile* file) {
  (file->dirty_ ? dirty_ : clean_).erase(file->file_place_);
  file->file_.reset();
}

void DescriptorCache::shrink_files(size_t target) {
  while (!clean_.empty() && clean_.size() + dirty_.size() > target) drop_file(clean_.front());
}

}  // namespace broadsheet
