// The addon's border with JavaScript: per-environment state, arguments, results, callbacks.
//
// Rules: nothing throws across. A hot call answers with a number, negative for failure (the Status is then kept as
// lastStatus); a cold call answers with its result or a StatusObject {code, errno, context}.
#pragma once

#include <napi.h>
#include <uv.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <unordered_map>

#include "file.h"
#include "io_threads.h"
#include "slots.h"
#include "status.h"

namespace broadsheet {

// Things that JavaScript knows by number. A number names one thing for ever, so a stale one finds nothing.
template <class T>
class HandleTable {
 public:
  int64_t add(std::shared_ptr<T> thing) {
    things_.emplace(next_, std::move(thing));
    return next_++;
  }
  // Null when unknown or removed.
  std::shared_ptr<T> find(int64_t handle) const {
    const auto found = things_.find(handle);
    return found == things_.end() ? nullptr : found->second;
  }
  // Whoever still holds the thing keeps it. False when unknown or removed.
  bool remove(int64_t handle) { return things_.erase(handle) > 0; }
  size_t size() const { return things_.size(); }

 private:
  std::unordered_map<int64_t, std::shared_ptr<T>> things_;
  int64_t next_ = 1;
};

using FileTable = HandleTable<File>;

// Holds the environment's end until done: `close` runs when the environment goes away (process exit, end or
// termination of a worker) and calls its argument, at once or later, when every handle is closed. JavaScript cannot
// be called any more then. Those made last run first. What is returned takes it back: for what is closed earlier. It must
// not be called once `close` ran.
std::function<void()> on_environment_end(napi_env env, std::function<void(std::function<void()> done)> close);

class LogTable;

// All that the addon keeps per environment (main thread or worker). Used on that environment's thread only.
class Environment {
 public:
  explicit Environment(napi_env env);
  ~Environment();
  static Environment& of(napi_env env);

  napi_env env() const { return env_; }
  uv_loop_t* loop() const { return loop_; }
  IoThreads& io() { return *io_; }
  // Segment files: the log side adds them, the socket side sends them.
  FileTable& files() { return files_; }
  std::shared_ptr<LogTable> logs;  // made and used by log_binding.cc
  HandleTable<FileLock>& locks() { return locks_; }

  void set(Slot slot, double value) { slots_[static_cast<size_t>(slot)] = value; }

  // Keeps the status for lastStatus() and gives the negative number that a hot call answers with.
  napi_value fail(Status status);
  const Status& last_status() const { return last_status_; }

  // Runs fn outside of any JavaScript frame (from the loop): opens the scopes that calls into JavaScript need, and
  // runs microtasks and process.nextTick at the end, once.
  void enter(const std::function<void()>& fn);

  // THE way to call JavaScript. An exception goes to the host's uncaughtException; then, and when the environment
  // is ending, the result is false.
  bool call(napi_value function, std::initializer_list<napi_value> arguments, napi_value* result = nullptr);

  // Called once, when the module is made.
  void init_exports(napi_value exports);

 private:
  napi_env const env_;
  uv_loop_t* loop_ = nullptr;
  napi_async_context context_ = nullptr;
  std::unique_ptr<IoThreads> io_;
  FileTable files_;
  HandleTable<FileLock> locks_;
  Status last_status_;
  double* slots_ = nullptr;
  napi_ref slots_ref_ = nullptr;
};

// A JavaScript value that is kept beyond the call; for functions, the callback. Movable; destroyed on the loop's
// thread.
class Reference {
 public:
  Reference() = default;
  Reference(napi_env env, napi_value value);
  ~Reference();
  Reference(Reference&& other) noexcept;
  Reference& operator=(Reference&& other) noexcept;

  explicit operator bool() const { return ref_ != nullptr; }
  napi_value value() const;  // needs a handle scope: within a call or Environment::enter
  bool call(std::initializer_list<napi_value> arguments, napi_value* result = nullptr) const;
  void reset();

 private:
  napi_env env_ = nullptr;
  napi_ref ref_ = nullptr;
};

struct Bytes {
  uint8_t* data = nullptr;
  size_t length = 0;
};

constexpr int64_t kMaxSafeInteger = 9007199254740991;

// Arguments of one call. The first one that is not as asked for makes the whole not ok; getters then give zeros:
//   Args args(env, info);
//   const Bytes bytes = args.bytes(0, "bytes");
//   const int64_t offset = args.integer(1, "offset");
//   if (!args.ok()) return args.reject();        // hot call, or args.reject_cold()
class Args {
 public:
  static constexpr size_t kMax = 14;
  Args(napi_env env, napi_callback_info info);

  Environment& environment() const { return environment_; }
  size_t count() const { return count_; }
  napi_value raw(size_t index) const { return values_[index]; }
  bool absent(size_t index) const;  // undefined, null or not given

  Bytes bytes(size_t index, const char* name);  // any ArrayBufferView
  // Arguments index .. index + 2: bytes, start, end; start <= end <= length. The part between.
  Bytes slice(size_t index);
  int64_t integer(size_t index, const char* name, int64_t min = 0, int64_t max = kMaxSafeInteger);
  double number(size_t index, const char* name);  // not NaN
  bool boolean(size_t index, const char* name);
  std::string string(size_t index, const char* name);
  napi_value function(size_t index, const char* name);
  napi_value array(size_t index, const char* name, uint32_t* length);

  bool ok() const { return status_.ok(); }
  napi_value reject();
  napi_value reject_cold();

 private:
  void refuse(const char* name, const char* expected);

  napi_env const env_;
  Environment& environment_;
  size_t count_ = kMax;
  napi_value values_[kMax];
  Status status_;
};

napi_value number(napi_env env, double value);
napi_value boolean(napi_env env, bool value);
napi_value string(napi_env env, const std::string& value);
napi_value undefined(napi_env env);
// {code, errno, context}; undefined for an OK one.
napi_value status_object(napi_env env, const Status& status);

struct Method {
  const char* name;
  napi_callback function;
};
// Defines functions on an object.
void define(napi_env env, napi_value object, std::initializer_list<Method> methods);

}  // namespace broadsheet
