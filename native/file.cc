#include "file.h"

#include <dirent.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace broadsheet {

namespace {

int call_open(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }
int call_lock(int fd, int command, struct flock* lock) { return ::fcntl(fd, command, lock); }
int call_stat(const char* path, struct stat* out) { return ::stat(path, out); }
int call_fstat(int fd, struct stat* out) { return ::fstat(fd, out); }

int call_cached_pages(int fd, uint64_t offset, uint64_t length, uint64_t* pages) {
  // cachestat(2), Linux 6.5; the same number on every architecture.
  constexpr long kCachestat = 451;
  struct {
    uint64_t offset, length;
  } range{offset, length};
  struct {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } counts{};
  if (::syscall(kCachestat, fd, &range, &counts, 0) != 0) return -1;
  *pages = counts.cached;
  return 0;
}

int call_list(const char* path, std::vector<DirectoryEntry>* out) {
  DIR* directory = ::opendir(path);
  if (directory == nullptr) return -1;
  const int fd = ::dirfd(directory);
  int error = 0;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(directory);
    if (entry == nullptr) {
      error = errno;
      break;
    }
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    struct stat facts;
    if (::fstatat(fd, entry->d_name, &facts, 0) != 0) {
      // Gone meanwhile, or a link that leads nowhere.
      if (errno == ENOENT) continue;
      error = errno;
      break;
    }
    const bool is_directory = S_ISDIR(facts.st_mode);
    out->push_back({entry->d_name, is_directory, is_directory ? 0 : static_cast<int64_t>(facts.st_size)});
  }
  ::closedir(directory);
  errno = error;
  return error == 0 ? 0 : -1;
}

constexpr SystemCalls kKernelCalls{
    .open = call_open,
    .close = ::close,
    .pread = ::pread,
    .preadv2 = ::preadv2,
    .pwritev = ::pwritev,
    .fdatasync = ::fdatasync,
    .fsync = ::fsync,
    .ftruncate = ::ftruncate,
    .fstat = call_fstat,
    .fstatfs = ::fstatfs,
    .sync_file_range = ::sync_file_range,
    .fadvise = ::posix_fadvise,
    .fallocate = ::fallocate,
    .sendfile = ::sendfile,
    .cached_pages = call_cached_pages,
    .lock = call_lock,
    .stat = call_stat,
    .mkdir = ::mkdir,
    .rename = ::rename,
    .unlink = ::unlink,
    .rmdir = ::rmdir,
    .list = call_list,
};

std::atomic<const SystemCalls*> current_calls{&kKernelCalls};

const SystemCalls& calls() { return *current_calls.load(std::memory_order_acquire); }

bool has_nul(const std::string& path) { return path.find('\0') != std::string::npos; }

Status nul_in_path(const std::string& path) {
  return Status::Of(Code::kInvalidArgument, "a path may not be empty or hold a NUL: '" + std::string(path.c_str()) + "'");
}

bool valid_path(const std::string& path) { return !path.empty() && !has_nul(path); }

Status path_error(const char* what, const std::string& path) {
  const int error = errno;
  return Status::FromErrno(error, std::string(what) + " " + path);
}

// Calls again while a signal interrupts.
template <class Call>
auto retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result == -1 && errno == EINTR);
  return result;
}

// The file system cannot do it: a hint is then no error.
bool unsupported(int error) { return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL || error == ESPIPE; }

}  // namespace

const SystemCalls& kernel_calls() { return kKernelCalls; }

void set_system_calls(const SystemCalls* table) {
  current_calls.store(table == nullptr ? &kKernelCalls : table, std::memory_order_release);
}

Status File::open(const std::string& path, OpenMode mode, std::shared_ptr<File>* out) {
  if (!valid_path(path)) return nul_in_path(path);
  int flags = O_CLOEXEC;
  switch (mode) {
    case OpenMode::kRead:
      flags |= O_RDONLY;
      break;
    case OpenMode::kReadWrite:
      flags |= O_RDWR;
      break;
    case OpenMode::kCreate:
      flags |= O_RDWR | O_CREAT;
      break;
    case OpenMode::kCreateNew:
      flags |= O_RDWR | O_CREAT | O_EXCL;
      break;
  }
  const int fd = retry([&] { return calls().open(path.c_str(), flags, 0644); });
  if (fd < 0) return path_error("open", path);
  out->reset(new File(fd, path));
  return Status::Ok();
}

// What was written is made durable by fdatasync and fsync; an error of close would tell nothing new.
File::~File() { calls().close(fd_); }

Status File::fail(const char* what) const { return path_error(what, path_); }

Status File::size(int64_t* bytes) const {
  struct stat facts;
  if (calls().fstat(fd_, &facts) != 0) return fail("stat");
  *bytes = facts.st_size;
  return Status::Ok();
}

Status File::pread_some(void* buffer, size_t length, int64_t position, size_t* got) const {
  *got = 0;
  while (*got < length) {
    const ssize_t n = retry([&] {
      return calls().pread(fd_, static_cast<uint8_t*>(buffer) + *got, length - *got,
                           position + static_cast<int64_t>(*got));
    });
    if (n < 0) return fail("read");
    if (n == 0) break;
    *got += static_cast<size_t>(n);
  }
  return Status::Ok();
}

Status File::pread_all(void* buffer, size_t length, int64_t position) const {
  size_t got;
  if (Status status = pread_some(buffer, length, position, &got); !status.ok()) return status;
  if (got < length) {
    return Status::Of(Code::kCorrupt, "read " + path_ + ": it ends at " +
                                          std::to_string(position + static_cast<int64_t>(got)) + ", expected " +
                                          std::to_string(length) + " bytes at " + std::to_string(position));
  }
  return Status::Ok();
}

// Whether its file system has no disk to wait for.
bool File::in_memory() const {
  struct statfs facts;
  return retry([&] { return calls().fstatfs(fd_, &facts); }) == 0 &&
         (facts.f_type == TMPFS_MAGIC || facts.f_type == RAMFS_MAGIC);
}

Status File::read_cached(void* buffer, size_t length, int64_t position, size_t* got) const {
  *got = 0;
  while (*got < length) {
    iovec part{static_cast<uint8_t*>(buffer) + *got, length - *got};
    const int64_t at = position + static_cast<int64_t>(*got);
    const ssize_t n = retry([&] { return calls().preadv2(fd_, &part, 1, at, RWF_NOWAIT); });
    if (n < 0) {
      if (errno == EAGAIN) return Status::Of(Code::kCold, {});
      if (!unsupported(errno)) return fail("read");
      if (!in_memory()) return Status::Of(Code::kCold, {});
      size_t rest;
      Status status = pread_some(part.iov_base, part.iov_len, at, &rest);
      *got += rest;
      return status;
    }
    if (n == 0) break;
    *got += static_cast<size_t>(n);
  }
  return Status::Ok();
}

Status File::writev_all(iovec* parts, size_t count, int64_t position) const {
  while (count > 0) {
    if (parts->iov_len == 0) {
      ++parts;
      --count;
      continue;
    }
    const int batch = static_cast<int>(std::min<size_t>(count, IOV_MAX));
    ssize_t n = retry([&] { return calls().pwritev(fd_, parts, batch, position); });
    if (n < 0) return fail("write");
    if (n == 0) {
      errno = EIO;
      return fail("write");
    }
    position += n;
    while (n > 0) {
      const size_t used = std::min(static_cast<size_t>(n), parts->iov_len);
      parts->iov_base = static_cast<uint8_t*>(parts->iov_base) + used;
      parts->iov_len -= used;
      n -= static_cast<ssize_t>(used);
      if (parts->iov_len == 0) {
        ++parts;
        --count;
      }
    }
  }
  return Status::Ok();
}

Status File::pwrite_all(const void* data, size_t length, int64_t position) const {
  iovec part{const_cast<void*>(data), length};
  return writev_all(&part, 1, position);
}

Status File::fdatasync() const {
  if (retry([&] { return calls().fdatasync(fd_); }) != 0) return fail("fdatasync");
  return Status::Ok();
}

Status File::fsync() const {
  if (retry([&] { return calls().fsync(fd_); }) != 0) return fail("fsync");
  return Status::Ok();
}

Status File::truncate(int64_t length) const {
  if (retry([&] { return calls().ftruncate(fd_, length); }) != 0) return fail("truncate");
  return Status::Ok();
}

Status File::start_writeback(int64_t position, int64_t length) const {
  if (calls().sync_file_range(fd_, position, length, SYNC_FILE_RANGE_WRITE) != 0 && !unsupported(errno)) {
    return fail("sync_file_range");
  }
  return Status::Ok();
}

Status File::will_need(int64_t position, int64_t length) const {
  const int error = calls().fadvise(fd_, position, length, POSIX_FADV_WILLNEED);
  if (error != 0 && !unsupported(error)) return Status::FromErrno(error, "fadvise " + path_);
  return Status::Ok();
}

Status File::reserve(int64_t position, int64_t length) const {
  if (retry([&] { return calls().fallocate(fd_, FALLOC_FL_KEEP_SIZE, position, length); }) != 0 &&
      !unsupported(errno)) {
    return fail("fallocate");
  }
  return Status::Ok();
}

bool File::resident(int64_t position, int64_t length) const {
  if (length <= 0) return true;
  static const int64_t page = ::sysconf(_SC_PAGESIZE);
  // A read of one byte that may not wait: false when it would have to, or finds nothing.
  const auto probe = [&](int64_t at) {
    uint8_t byte;
    size_t got;
    return read_cached(&byte, 1, at, &got).ok() && got == 1;
  };
  const int64_t end = position + length;
  const int64_t first = position / page;
  const int64_t last = (end - 1) / page;
  uint64_t cached = 0;
  const bool counted =
      calls().cached_pages(fd_, static_cast<uint64_t>(position), static_cast<uint64_t>(length), &cached) == 0;
  if (counted && cached <= static_cast<uint64_t>(last - first)) return false;
  // Pages that are just being read count as cached. Reading ahead goes upwards, so the last one tells.
  if (!probe(end - 1)) return false;
  if (counted) return first == last || probe(position);
  for (int64_t at = last - 1; at >= first; --at) {
    if (!probe(at == first ? position : at * page)) return false;
  }
  return true;
}

Status File::send_to(int socket, int64_t position, size_t length, size_t* sent, bool* would_block) const {
  *sent = 0;
  *would_block = false;
  off_t offset = position;
  const ssize_t n = retry([&] { return calls().sendfile(socket, fd_, &offset, length); });
  if (n > 0) {
    *sent = static_cast<size_t>(n);
    return Status::Ok();
  }
  if (n == 0) {
    // Past the end sendfile says 0 for ever.
    return Status::Of(Code::kCorrupt, "send " + path_ + ": it ends before " + std::to_string(position));
  }
  if (errno == EAGAIN) {
    *would_block = true;
    return Status::Ok();
  }
  return fail("send");
}

namespace {

// The pid that a lock file's holder wrote into it; 0 when there is none.
long written_pid(const File& file) {
  char text[24] = {};
  size_t got;
  if (!file.pread_some(text, sizeof text - 1, 0, &got).ok()) return 0;
  return std::strtol(text, nullptr, 10);
}

struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Status FileLock::acquire(const std::string& path, const std::string& content, std::unique_ptr<FileLock>* out) {
  std::shared_ptr<File> file;
  if (Status status = File::open(path, OpenMode::kCreate, &file); !status.ok()) return status;
  struct flock lock = whole_file(F_WRLCK);
  if (retry([&] { return calls().lock(file->descriptor(), F_OFD_SETLK, &lock); }) != 0) {
    if (errno != EAGAIN && errno != EACCES) return path_error("lock", path);
    struct flock holder = whole_file(F_WRLCK);
    long pid = 0;
    if (calls().lock(file->descriptor(), F_OFD_GETLK, &holder) == 0 && holder.l_type != F_UNLCK) pid = holder.l_pid;
    if (pid <= 0) pid = written_pid(*file);
    std::string who = "another process";
    if (pid == ::getpid()) {
      who = "this process (pid " + std::to_string(pid) + ")";
    } else if (pid > 0) {
      who = "process " + std::to_string(pid);
    }
    return Status::Of(Code::kLocked, path + " is locked by " + who);
  }
  if (Status status = file->truncate(0); !status.ok()) return status;
  if (Status status = file->pwrite_all(content.data(), content.size(), 0); !status.ok()) return status;
  out->reset(new FileLock(std::move(file)));
  return Status::Ok();
}

Status make_directory(const std::string& path) {
  if (!valid_path(path)) return nul_in_path(path);
  if (calls().mkdir(path.c_str(), 0755) != 0) return path_error("mkdir", path);
  return Status::Ok();
}

Status rename_path(const std::string& from, const std::string& to) {
  if (!valid_path(from)) return nul_in_path(from);
  if (!valid_path(to)) return nul_in_path(to);
  if (calls().rename(from.c_str(), to.c_str()) != 0) return path_error("rename", from + " to " + to);
  return Status::Ok();
}

Status remove_file(const std::string& path) {
  if (!valid_path(path)) return nul_in_path(path);
  if (calls().unlink(path.c_str()) != 0) return path_error("remove", path);
  return Status::Ok();
}

Status remove_directory(const std::string& path) {
  if (!valid_path(path)) return nul_in_path(path);
  if (calls().rmdir(path.c_str()) != 0) return path_error("remove folder", path);
  return Status::Ok();
}

Status list_directory(const std::string& path, std::vector<DirectoryEntry>* out) {
  if (!valid_path(path)) return nul_in_path(path);
  out->clear();
  if (calls().list(path.c_str(), out) != 0) return path_error("list", path);
  std::sort(out->begin(), out->end(),
            [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
  return Status::Ok();
}

Status stat_path(const std::string& path, struct stat* out) {
  if (!valid_path(path)) return nul_in_path(path);
  if (calls().stat(path.c_str(), out) != 0) return path_error("stat", path);
  return Status::Ok();
}

Status sync_directory(const std::string& path) {
  std::shared_ptr<File> folder;
  if (Status status = File::open(path, OpenMode::kRead, &folder); !status.ok()) return status;
  return folder->fsync();
}

std::string parent_of(const std::string& path) {
  size_t end = path.size();
  while (end > 1 && path[end - 1] == '/') --end;
  const size_t slash = path.rfind('/', end - 1);
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace broadsheet
