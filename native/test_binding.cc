// For tests only, under the export `testing`: one file call at a time, faults, work on the I/O threads.
#include <malloc.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "bindings.h"
#include "file_faults.h"
#include "file_journal.h"
#include "napi_util.h"

namespace broadsheet {
namespace {

napi_value answer(Args* args, Status status, double result = 0) {
  if (!status.ok()) return args->environment().fail(std::move(status));
  return number(args->environment().env(), result);
}

// Argument 0: the handle of an open file.
std::shared_ptr<File> file_of(Args* args, Status* status) {
  std::shared_ptr<File> file = args->environment().files().find(args->integer(0, "file"));
  if (file == nullptr) *status = Status::Of(Code::kClosed, "the file is not open");
  return file;
}

napi_value set_fault(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const std::string call = args.string(0, "call");
  FileFault fault;
  fault.skip = args.integer(1, "skip");
  fault.times = args.integer(2, "times");
  fault.error_number = static_cast<int>(args.integer(3, "errno", 0, 4095));
  fault.limit = static_cast<size_t>(args.integer(4, "limit"));
  if (!args.ok()) return args.reject();
  return answer(&args, set_file_fault(call, fault));
}

napi_value clear_faults(napi_env env, napi_callback_info) {
  clear_file_faults();
  return undefined(env);
}

napi_value fault_skips(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const std::string call = args.string(0, "call");
  if (!args.ok()) return args.reject();
  return number(env, static_cast<double>(file_fault_skips(call)));
}

napi_value open_file(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const std::string path = args.string(0, "path");
  const std::string mode = args.string(1, "mode");
  if (!args.ok()) return args.reject();
  OpenMode open_mode = OpenMode::kRead;
  if (mode == "read-write") open_mode = OpenMode::kReadWrite;
  if (mode == "create") open_mode = OpenMode::kCreate;
  if (mode == "create-new") open_mode = OpenMode::kCreateNew;
  std::shared_ptr<File> file;
  Status status = File::open(path, open_mode, &file);
  return answer(&args, status, status.ok() ? static_cast<double>(args.environment().files().add(file)) : 0);
}

napi_value close_file(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const int64_t handle = args.integer(0, "file");
  return boolean(env, args.environment().files().remove(handle));
}

// file, buffer, position, how -> bytes read
napi_value read(napi_env env, napi_callback_info info) {
  Args args(env, info);
  Status status;
  const std::shared_ptr<File> file = file_of(&args, &status);
  const Bytes into = args.bytes(1, "buffer");
  const int64_t position = args.integer(2, "position");
  const std::string how = args.string(3, "how");
  if (!args.ok()) return args.reject();
  size_t got = into.length;
  if (status.ok()) {
    if (how == "all") {
      status = file->pread_all(into.data, into.length, position);
    } else if (how == "some") {
      status = file->pread_some(into.data, into.length, position, &got);
    } else {
      status = file->read_cached(into.data, into.length, position, &got);
    }
  }
  return answer(&args, status, static_cast<double>(got));
}

// file, array of buffers, position
napi_value write(napi_env env, napi_callback_info info) {
  Args args(env, info);
  Status status;
  const std::shared_ptr<File> file = file_of(&args, &status);
  uint32_t count = 0;
  const napi_value array = args.array(1, "buffers", &count);
  const int64_t position = args.integer(2, "position");
  if (!args.ok()) return args.reject();
  std::vector<iovec> parts(count);
  for (uint32_t index = 0; index < count; ++index) {
    napi_value item;
    napi_get_element(env, array, index, &item);
    napi_get_buffer_info(env, item, &parts[index].iov_base, &parts[index].iov_len);
  }
  if (status.ok()) status = file->writev_all(parts.data(), parts.size(), position);
  return answer(&args, status);
}

// file, what, position, length -> by what
napi_value act(napi_env env, napi_callback_info info) {
  Args args(env, info);
  Status status;
  const std::shared_ptr<File> file = file_of(&args, &status);
  const std::string what = args.string(1, "what");
  const int64_t position = args.integer(2, "position");
  const int64_t length = args.integer(3, "length");
  if (!args.ok()) return args.reject();
  if (!status.ok()) return answer(&args, status);
  int64_t size = 0;
  if (what == "size") {
    status = file->size(&size);
    return answer(&args, status, static_cast<double>(size));
  }
  if (what == "resident") return answer(&args, status, file->resident(position, length) ? 1 : 0);
  if (what == "fdatasync") return answer(&args, file->fdatasync());
  if (what == "fsync") return answer(&args, file->fsync());
  if (what == "truncate") return answer(&args, file->truncate(length));
  if (what == "start-writeback") return answer(&args, file->start_writeback(position, length));
  if (what == "will-need") return answer(&args, file->will_need(position, length));
  if (what == "reserve") return answer(&args, file->reserve(position, length));
  return answer(&args, Status::Of(Code::kInvalidArgument, what));
}

// file, socket descriptor, position, length -> bytes sent, 0: it would have blocked
napi_value send(napi_env env, napi_callback_info info) {
  Args args(env, info);
  Status status;
  const std::shared_ptr<File> file = file_of(&args, &status);
  const int64_t socket = args.integer(1, "socket");
  const int64_t position = args.integer(2, "position");
  const int64_t length = args.integer(3, "length");
  if (!args.ok()) return args.reject();
  size_t sent = 0;
  bool would_block = false;
  if (status.ok()) {
    status = file->send_to(static_cast<int>(socket), position, static_cast<size_t>(length), &sent, &would_block);
  }
  return answer(&args, status, static_cast<double>(sent));
}

// milliseconds, callback: work that takes so long on an I/O thread
napi_value work(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const int64_t milliseconds = args.integer(0, "milliseconds");
  const napi_value function = args.function(1, "callback");
  if (!args.ok()) return args.reject();
  args.environment().io().submit([milliseconds] { ::usleep(static_cast<useconds_t>(milliseconds * 1000)); },
                                 [callback = Reference(env, function)] { callback.call({}); });
  return number(env, 0);
}

napi_value in_flight(napi_env env, napi_callback_info) {
  return number(env, static_cast<double>(Environment::of(env).io().in_flight()));
}

napi_value begin_journal(napi_env env, napi_callback_info) {
  begin_file_journal();
  return undefined(env);
}

napi_value end_journal(napi_env env, napi_callback_info) {
  end_file_journal();
  return undefined(env);
}

// The events of file_journal.h.
napi_value take_journal(napi_env env, napi_callback_info) {
  const std::string events = take_file_journal();
  napi_value buffer = nullptr;
  napi_create_buffer_copy(env, events.size(), events.data(), nullptr, &buffer);
  return buffer;
}

// whether: work of the I/O threads waits for step() from now on
napi_value set_stepped(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const int64_t stepped = args.integer(0, "stepped", 0, 1);
  if (!args.ok()) return args.reject();
  args.environment().io().set_stepped(stepped == 1);
  return undefined(env);
}

napi_value waiting(napi_env env, napi_callback_info) {
  return number(env, static_cast<double>(Environment::of(env).io().waiting()));
}

// place among what waits
napi_value step(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const int64_t place = args.integer(0, "place");
  if (!args.ok()) return args.reject();
  return boolean(env, args.environment().io().step(static_cast<size_t>(place)));
}

// allocatedBytes(): what malloc() has given out to the whole process and not got back; 0 where the C library can't say.
napi_value allocated_bytes(napi_env env, napi_callback_info) {
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 info = mallinfo2();
  return number(env, static_cast<double>(info.uordblks + info.hblkhd));
#endif
#endif
  return number(env, 0);
}

#if defined(__SANITIZE_ADDRESS__)
// A planted error, to see that the sanitizers see it.
napi_value canary(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const std::string kind = args.string(0, "kind");
  const int64_t number_given = args.integer(1, "number");
  if (!args.ok()) return args.reject();
  if (kind == "address") {
    std::vector<uint8_t> bytes(static_cast<size_t>(number_given));
    const volatile uint8_t* data = bytes.data();
    return number(env, data[number_given]);
  }
  const int32_t value = static_cast<int32_t>(number_given);
  return number(env, value + value);
}
#endif

}  // namespace

void init_test_binding(napi_env env, napi_value exports) {
  napi_value testing = nullptr;
  napi_create_object(env, &testing);
  define(env, testing,
         {{"setFault", set_fault},
          {"clearFaults", clear_faults},
          {"faultSkips", fault_skips},
          {"openFile", open_file},
          {"closeFile", close_file},
          {"read", read},
          {"write", write},
          {"act", act},
          {"send", send},
          {"work", work},
          {"beginJournal", begin_journal},
          {"endJournal", end_journal},
          {"takeJournal", take_journal},
          {"setStepped", set_stepped},
          {"waiting", waiting},
          {"step", step},
          {"inFlight", in_flight},
          {"allocatedBytes", allocated_bytes}});
#if defined(__SANITIZE_ADDRESS__)
  define(env, testing, {{"canary", canary}});
#endif
  napi_set_named_property(env, exports, "testing", testing);
}

}  // namespace broadsheet
