// The only place in native/ that calls the kernel about files and folders.
//
// Every call goes through one table of function pointers (SystemCalls), so that a test can put its own in place and
// make any of them fail, fall short or tear. Unused, it costs one load per call.
//
// Nothing here knows N-API or the loop: all of it may run on any thread. One File may be used by several threads at
// once, as its descriptor may; whoever uses it holds a shared_ptr.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "status.h"

namespace broadsheet {

struct DirectoryEntry {
  std::string name;
  bool directory = false;
  int64_t size = 0;  // bytes; 0 for a folder
};

// The system calls as they are: -1 and errno on failure.
struct SystemCalls {
  int (*open)(const char* path, int flags, mode_t mode);
  int (*close)(int fd);
  ssize_t (*pread)(int fd, void* buffer, size_t length, off_t offset);
  ssize_t (*preadv2)(int fd, const iovec* parts, int count, off_t offset, int flags);
  ssize_t (*pwritev)(int fd, const iovec* parts, int count, off_t offset);
  int (*fdatasync)(int fd);
  int (*fsync)(int fd);
  int (*ftruncate)(int fd, off_t length);
  int (*fstat)(int fd, struct stat* out);
  int (*fstatfs)(int fd, struct statfs* out);
  int (*sync_file_range)(int fd, off_t offset, off_t length, unsigned flags);
  int (*fadvise)(int fd, off_t offset, off_t length, int advice);  // returns the error number
  int (*fallocate)(int fd, int mode, off_t offset, off_t length);
  ssize_t (*sendfile)(int socket, int fd, off_t* offset, size_t length);
  int (*cached_pages)(int fd, uint64_t offset, uint64_t length, uint64_t* pages);  // cachestat(2)
  int (*lock)(int fd, int command, struct flock* lock);
  int (*stat)(const char* path, struct stat* out);
  int (*mkdir)(const char* path, mode_t mode);
  int (*rename)(const char* from, const char* to);
  int (*unlink)(const char* path);
  int (*rmdir)(const char* path);
  int (*list)(const char* path, std::vector<DirectoryEntry>* out);
};

// The kernel's own.
const SystemCalls& kernel_calls();
// Puts another table in place for the whole process, or the kernel's own with nullptr. The table must live on.
void set_system_calls(const SystemCalls* calls);

enum class OpenMode {
  kRead,       // must exist
  kReadWrite,  // must exist
  kCreate,     // read and write, made if missing
  kCreateNew,  // read and write, must not exist
};

// An open file. Its descriptor is CLOEXEC and closed with the last reference.
class File {
 public:
  // kNotFound, kLimit (EMFILE, ENFILE), kIo. A path with a NUL in it is kInvalidArgument.
  static Status open(const std::string& path, OpenMode mode, std::shared_ptr<File>* out);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int descriptor() const { return fd_; }
  // As opened; for error texts. A renamed folder does not change it.
  const std::string& path() const { return path_; }

  Status size(int64_t* bytes) const;

  // Reads all of it; an end of file within is kCorrupt.
  Status pread_all(void* buffer, size_t length, int64_t position) const;
  // Reads up to length; *got < length only at the end of the file.
  Status pread_some(void* buffer, size_t length, int64_t position, size_t* got) const;
  // As pread_some, but never waits for a disk: kCold when not all of it lies in the page cache (what came before the
  // missing part may already be in buffer), nor where the file system cannot tell, unless it has no disk.
  Status read_cached(void* buffer, size_t length, int64_t position, size_t* got) const;

  // Writes all parts at position; resumes after short writes, any number of parts. The iovecs are used up. On failure
  // part of it may be written.
  Status writev_all(iovec* parts, size_t count, int64_t position) const;
  Status pwrite_all(const void* data, size_t length, int64_t position) const;

  Status fdatasync() const;
  Status fsync() const;
  Status truncate(int64_t length) const;
  // Starts write-back of a range and does not wait for it; length 0 is to the end. A hint: no error where unsupported.
  Status start_writeback(int64_t position, int64_t length) const;
  // Starts reading a range into the page cache. A hint; to be sure that it is there, read it.
  Status will_need(int64_t position, int64_t length) const;
  // Reserves blocks without moving the end of the file. A hint: no error where unsupported, but kNoSpace is one.
  Status reserve(int64_t position, int64_t length) const;

  // Whether all of a range lies in the page cache; what is past the end of the file does not. Exact but for pages on their way
  // in.
  bool resident(int64_t position, int64_t length) const;

  // sendfile(2), one call: *sent bytes left, > 0, or *would_block. The file ending before position is kCorrupt.
  // Blocks when the range is cold. error_number tells a peer that is gone (EPIPE, ECONNRESET).
  Status send_to(int socket, int64_t position, size_t length, size_t* sent, bool* would_block) const;

 private:
  File(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  bool in_memory() const;
  Status fail(const char* what) const;

  const int fd_;
  const std::string path_;
};

// An exclusive F_OFD_SETLK lock: it excludes other processes, fcntl locks (Java's FileLock) and a second holder in
// this process. Held until destroyed.
class FileLock {
 public:
  // Makes the file if missing, locks it and replaces its content. kLocked names the holder's pid: what F_OFD_GETLK
  // says, or the file's content when the holder's lock is an OFD one, which has no pid.
  static Status acquire(const std::string& path, const std::string& content, std::unique_ptr<FileLock>* out);

 private:
  explicit FileLock(std::shared_ptr<File> file) : file_(std::move(file)) {}
  std::shared_ptr<File> file_;
};

Status make_directory(const std::string& path);                      // existing is kIo with EEXIST
Status rename_path(const std::string& from, const std::string& to);  // replaces a file
Status remove_file(const std::string& path);                         // missing is kNotFound
Status remove_directory(const std::string& path);                    // must be empty
Status list_directory(const std::string& path, std::vector<DirectoryEntry>* out);  // by name, links followed
Status stat_path(const std::string& path, struct stat* out);
// Makes the folder's entries durable.
Status sync_directory(const std::string& path);
// The folder that holds a path; "." for a bare name.
std::string parent_of(const std::string& path);

}  // namespace broadsheet
