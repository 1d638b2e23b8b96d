// A libuv handle in memory of the size that the running libuv asks for. libuv is outside N-API's promise: the binary may run
// in a Node whose handles are larger than those of the headers it was compiled with.
#pragma once

#include <uv.h>

#include <cstdlib>

namespace broadsheet {

// The handle's memory is freed with this object: not before its close callback has run.
template <class Handle, uv_handle_type kType>
class UvHandle {
 public:
  explicit UvHandle(void* data) : handle_(static_cast<uv_handle_t*>(std::calloc(1, uv_handle_size(kType)))) {
    if (handle_ == nullptr) std::abort();
    uv_handle_set_data(handle_, data);
  }
  ~UvHandle() { std::free(handle_); }
  UvHandle(const UvHandle&) = delete;
  UvHandle& operator=(const UvHandle&) = delete;

  Handle* get() { return reinterpret_cast<Handle*>(handle_); }
  uv_handle_t* base() { return handle_; }

  // What was given to the constructor, in a callback.
  template <class Owner>
  static Owner* owner(const Handle* handle) {
    return static_cast<Owner*>(uv_handle_get_data(reinterpret_cast<const uv_handle_t*>(handle)));
  }

 private:
  uv_handle_t* const handle_;
};

using UvAsync = UvHandle<uv_async_t, UV_ASYNC>;
using UvPoll = UvHandle<uv_poll_t, UV_POLL>;

}  // namespace broadsheet
