#include "file_journal.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "file.h"
#include "file_faults.h"

namespace broadsheet {

namespace {

enum Kind { kOpen, kClose, kWrite, kTruncate, kSync, kSynced, kMakeDirectory, kRename, kUnlink, kRemoveDirectory, kFailed };

// Held while a change is made, so that the order in the journal is the order of the changes. A sync runs without it.
std::mutex mutex;
std::string journal;
double syncs = 0;

const SystemCalls& below() { return faulty_calls(); }

// Takes errno across.
void note(Kind kind, int fd, double number, const void* bytes, size_t length) {
  const int error = errno;
  const double header[] = {static_cast<double>(kind), static_cast<double>(fd), number, static_cast<double>(length)};
  journal.append(reinterpret_cast<const char*>(header), sizeof header);
  journal.append(static_cast<const char*>(bytes), length);
  errno = error;
}

void note(Kind kind, int fd, double number = 0, const std::string& bytes = {}) {
  note(kind, fd, number, bytes.data(), bytes.size());
}

int noted_open(const char* path, int flags, mode_t mode) {
  std::lock_guard<std::mutex> lock(mutex);
  const int fd = below().open(path, flags, mode);
  if (fd >= 0) note(kOpen, fd, flags, path);
  return fd;
}

int noted_close(int fd) {
  std::lock_guard<std::mutex> lock(mutex);
  note(kClose, fd);
  return below().close(fd);
}

ssize_t noted_pwritev(int fd, const iovec* parts, int count, off_t offset) {
  std::lock_guard<std::mutex> lock(mutex);
  const ssize_t written = below().pwritev(fd, parts, count, offset);
  if (written <= 0) return written;
  std::string bytes;
  for (int index = 0; index < count && bytes.size() < static_cast<size_t>(written); ++index) {
    const size_t left = static_cast<size_t>(written) - bytes.size();
    bytes.append(static_cast<const char*>(parts[index].iov_base), std::min(parts[index].iov_len, left));
  }
  note(kWrite, fd, static_cast<double>(offset), bytes);
  return written;
}

template <auto kSyncCall>
int noted_sync(int fd) {
  double own;
  {
    std::lock_guard<std::mutex> lock(mutex);
    own = ++syncs;
    note(kSync, fd, own);
  }
  const int result = (below().*kSyncCall)(fd);
  std::lock_guard<std::mutex> lock(mutex);
  // A signal does not take the pages out of the kernel's hands.
  if (result == 0 || errno != EINTR) note(result == 0 ? kSynced : kFailed, fd, own);
  return result;
}

int noted_ftruncate(int fd, off_t length) {
  std::lock_guard<std::mutex> lock(mutex);
  const int result = below().ftruncate(fd, length);
  if (result == 0) note(kTruncate, fd, static_cast<double>(length));
  return result;
}

int noted_mkdir(const char* path, mode_t mode) {
  std::lock_guard<std::mutex> lock(mutex);
  const int result = below().mkdir(path, mode);
  if (result == 0) note(kMakeDirectory, -1, 0, path);
  return result;
}

int noted_rename(const char* from, const char* to) {
  std::lock_guard<std::mutex> lock(mutex);
  const int result = below().rename(from, to);
  if (result == 0) note(kRename, -1, 0, std::string(from) + '\0' + to);
  return result;
}

template <auto kCall, Kind kKind>
int noted_removal(const char* path) {
  std::lock_guard<std::mutex> lock(mutex);
  const int result = (below().*kCall)(path);
  if (result == 0) note(kKind, -1, 0, path);
  return result;
}

SystemCalls make_table() {
  SystemCalls table = below();
  table.open = noted_open;
  table.close = noted_close;
  table.pwritev = noted_pwritev;
  table.fdatasync = noted_sync<&SystemCalls::fdatasync>;
  table.fsync = noted_sync<&SystemCalls::fsync>;
  table.ftruncate = noted_ftruncate;
  table.mkdir = noted_mkdir;
  table.rename = noted_rename;
  table.unlink = noted_removal<&SystemCalls::unlink, kUnlink>;
  table.rmdir = noted_removal<&SystemCalls::rmdir, kRemoveDirectory>;
  return table;
}

}  // namespace

void begin_file_journal() {
  static const SystemCalls table = make_table();
  {
    std::lock_guard<std::mutex> lock(mutex);
    journal.clear();
  }
  watch_faulty_calls(&table);
}

void end_file_journal() { watch_faulty_calls(nullptr); }

std::string take_file_journal() {
  std::lock_guard<std::mutex> lock(mutex);
  return std::exchange(journal, {});
}

}  // namespace broadsheet
