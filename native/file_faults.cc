#include "file_faults.h"

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "file.h"

namespace broadsheet {

namespace {

std::mutex mutex;  // guards every plan

struct Plan {
  FileFault fault;
  bool active = false;

  // Whether this call is struck; then *struck says how.
  bool strikes(FileFault* struck) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!active) return false;
    if (fault.skip > 0) {
      --fault.skip;
      return false;
    }
    *struck = fault;
    if (--fault.times <= 0) active = false;
    return true;
  }
};

template <class R>
R failure(int error_number) {
  errno = error_number;
  if constexpr (std::is_pointer_v<R>) {
    return reinterpret_cast<R>(-1);  // MAP_FAILED
  } else {
    return R{-1};
  }
}

// A member of SystemCalls that fails as planned.
template <auto kMember>
struct Faulty;

template <class R, class... A, R (*SystemCalls::*kMember)(A...)>
struct Faulty<kMember> {
  static inline Plan plan;

  static R call(A... arguments) {
    FileFault fault;
    if (plan.strikes(&fault)) return failure<R>(fault.error_number);
    return (kernel_calls().*kMember)(arguments...);
  }

  // Returns the error number instead of setting it.
  static R call_returning_error(A... arguments) {
    FileFault fault;
    if (plan.strikes(&fault)) return fault.error_number;
    return (kernel_calls().*kMember)(arguments...);
  }
};

ssize_t short_pread(int fd, void* buffer, size_t length, off_t offset) {
  FileFault fault;
  if (Faulty<&SystemCalls::pread>::plan.strikes(&fault)) {
    if (fault.error_number != 0) return failure<ssize_t>(fault.error_number);
    length = std::min(length, fault.limit);
  }
  return kernel_calls().pread(fd, buffer, length, offset);
}

ssize_t short_preadv2(int fd, const iovec* parts, int count, off_t offset, int flags) {
  FileFault fault;
  if (Faulty<&SystemCalls::preadv2>::plan.strikes(&fault)) {
    if (fault.error_number != 0) return failure<ssize_t>(fault.error_number);
    const iovec part{parts->iov_base, std::min(parts->iov_len, fault.limit)};
    return kernel_calls().preadv2(fd, &part, 1, offset, flags);
  }
  return kernel_calls().preadv2(fd, parts, count, offset, flags);
}

ssize_t short_pwritev(int fd, const iovec* parts, int count, off_t offset) {
  FileFault fault;
  if (Faulty<&SystemCalls::pwritev>::plan.strikes(&fault)) {
    if (fault.error_number != 0) return failure<ssize_t>(fault.error_number);
    std::vector<iovec> cut;
    for (int index = 0; index < count && fault.limit > 0; ++index) {
      cut.push_back({parts[index].iov_base, std::min(parts[index].iov_len, fault.limit)});
      fault.limit -= cut.back().iov_len;
    }
    return kernel_calls().pwritev(fd, cut.data(), static_cast<int>(cut.size()), offset);
  }
  return kernel_calls().pwritev(fd, parts, count, offset);
}

ssize_t short_sendfile(int socket, int fd, off_t* offset, size_t length) {
  FileFault fault;
  if (Faulty<&SystemCalls::sendfile>::plan.strikes(&fault)) {
    if (fault.error_number != 0) return failure<ssize_t>(fault.error_number);
    length = std::min(length, fault.limit);
  }
  return kernel_calls().sendfile(socket, fd, offset, length);
}

// close is not made to fail: nobody could do anything about it.
SystemCalls make_table() {
  SystemCalls table = kernel_calls();
  table.open = Faulty<&SystemCalls::open>::call;
  table.pread = short_pread;
  table.preadv2 = short_preadv2;
  table.pwritev = short_pwritev;
  table.fdatasync = Faulty<&SystemCalls::fdatasync>::call;
  table.fsync = Faulty<&SystemCalls::fsync>::call;
  table.ftruncate = Faulty<&SystemCalls::ftruncate>::call;
  table.fstat = Faulty<&SystemCalls::fstat>::call;
  table.fstatfs = Faulty<&SystemCalls::fstatfs>::call;
  table.sync_file_range = Faulty<&SystemCalls::sync_file_range>::call;
  table.fadvise = Faulty<&SystemCalls::fadvise>::call_returning_error;
  table.fallocate = Faulty<&SystemCalls::fallocate>::call;
  table.sendfile = short_sendfile;
  table.cached_pages = Faulty<&SystemCalls::cached_pages>::call;
  table.lock = Faulty<&SystemCalls::lock>::call;
  table.stat = Faulty<&SystemCalls::stat>::call;
  table.mkdir = Faulty<&SystemCalls::mkdir>::call;
  table.rename = Faulty<&SystemCalls::rename>::call;
  table.unlink = Faulty<&SystemCalls::unlink>::call;
  table.rmdir = Faulty<&SystemCalls::rmdir>::call;
  table.list = Faulty<&SystemCalls::list>::call;
  return table;
}

struct NamedPlan {
  const char* name;
  Plan* plan;
};

#define BROADSHEET_PLAN(call) {#call, &Faulty<&SystemCalls::call>::plan}
const NamedPlan kPlans[] = {
    BROADSHEET_PLAN(open),      BROADSHEET_PLAN(pread),           BROADSHEET_PLAN(preadv2),
    BROADSHEET_PLAN(pwritev),   BROADSHEET_PLAN(fdatasync),       BROADSHEET_PLAN(fsync),
    BROADSHEET_PLAN(ftruncate), BROADSHEET_PLAN(fstat),           BROADSHEET_PLAN(fstatfs),
    BROADSHEET_PLAN(sync_file_range), BROADSHEET_PLAN(fadvise),   BROADSHEET_PLAN(fallocate),
    BROADSHEET_PLAN(sendfile),  BROADSHEET_PLAN(cached_pages),    BROADSHEET_PLAN(lock),
    BROADSHEET_PLAN(stat),      BROADSHEET_PLAN(mkdir),           BROADSHEET_PLAN(rename),
    BROADSHEET_PLAN(unlink),    BROADSHEET_PLAN(rmdir),           BROADSHEET_PLAN(list),
};
#undef BROADSHEET_PLAN

const SystemCalls* watching = nullptr;  // guarded by mutex
bool faults_set = false;                // the same

// With the mutex.
void put_in_place() { set_system_calls(watching != nullptr ? watching : faults_set ? &faulty_calls() : nullptr); }

}  // namespace

const SystemCalls& faulty_calls() {
  static const SystemCalls table = make_table();
  return table;
}

void watch_faulty_calls(const SystemCalls* watcher) {
  std::lock_guard<std::mutex> lock(mutex);
  watching = watcher;
  put_in_place();
}

Status set_file_fault(const std::string& call, const FileFault& fault) {
  for (const NamedPlan& named : kPlans) {
    if (call != named.name) continue;
    std::lock_guard<std::mutex> lock(mutex);
    named.plan->fault = fault;
    named.plan->active = true;
    faults_set = true;
    put_in_place();
    return Status::Ok();
  }
  return Status::Of(Code::kInvalidArgument, "no call about files is named " + call);
}

int64_t file_fault_skips(const std::string& call) {
  for (const NamedPlan& named : kPlans) {
    if (call != named.name) continue;
    std::lock_guard<std::mutex> lock(mutex);
    return named.plan->active ? named.plan->fault.skip : -1;
  }
  return -1;
}

void clear_file_faults() {
  std::lock_guard<std::mutex> lock(mutex);
  for (const NamedPlan& named : kPlans) named.plan->active = false;
  faults_set = false;
  put_in_place();
}

}  // namespace broadsheet
