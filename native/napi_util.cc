#include "napi_util.h"

#include <cassert>
#include <cmath>
#include <cstring>

namespace broadsheet {

std::function<void()> on_environment_end(napi_env env, std::function<void(std::function<void()> done)> close) {
  struct Hook {
    std::function<void(std::function<void()>)> close;
    napi_async_cleanup_hook_handle handle;
  };
  Hook* hook = new Hook{std::move(close), nullptr};
  napi_add_async_cleanup_hook(
      env,
      [](napi_async_cleanup_hook_handle, void* data) {
        Hook* self = static_cast<Hook*>(data);
        self->close([self] {
          // Removing the hook may end the environment and all that hangs on it.
          const napi_async_cleanup_hook_handle handle = self->handle;
          delete self;
          napi_remove_async_cleanup_hook(handle);
        });
      },
      hook, &hook->handle);
  return [hook] {
    napi_remove_async_cleanup_hook(hook->handle);
    delete hook;
  };
}

Environment::Environment(napi_env env) : env_(env) {
  napi_get_uv_event_loop(env, &loop_);
  napi_value name;
  napi_create_string_utf8(env, "broadsheet", NAPI_AUTO_LENGTH, &name);
  napi_async_init(env, nullptr, name, &context_);
  io_ = std::make_unique<IoThreads>(loop_, [this](const std::function<void()>& fn) { enter(fn); });
  on_environment_end(env, [this](std::function<void()> done) {
    napi_async_destroy(env_, context_);
    context_ = nullptr;
    io_->close(std::move(done));
  });
}

Environment::~Environment() = default;

Environment& Environment::of(napi_env env) {
  void* data = nullptr;
  napi_get_instance_data(env, &data);
  assert(data != nullptr);
  return *static_cast<Environment*>(data);
}

napi_value Environment::fail(Status status) {
  last_status_ = std::move(status);
  return number(env_, -static_cast<double>(last_status_.code));
}

void Environment::enter(const std::function<void()>& fn) {
  if (context_ == nullptr) return;
  napi_handle_scope handles;
  if (napi_open_handle_scope(env_, &handles) != napi_ok) return;
  napi_callback_scope scope;
  const bool opened = napi_open_callback_scope(env_, nullptr, context_, &scope) == napi_ok;
  fn();
  if (opened) napi_close_callback_scope(env_, scope);
  napi_close_handle_scope(env_, handles);
}

bool Environment::call(napi_value function, std::initializer_list<napi_value> arguments, napi_value* result) {
  napi_value receiver = undefined(env_);
  napi_value ignored;
  const napi_status status = napi_call_function(env_, receiver, function, arguments.size(), arguments.begin(),
                                                result == nullptr ? &ignored : result);
  if (status == napi_ok) return true;
  bool pending = false;
  napi_value error = nullptr;
  if (napi_is_exception_pending(env_, &pending) == napi_ok && pending &&
      napi_get_and_clear_last_exception(env_, &error) == napi_ok && error != nullptr) {
    napi_fatal_exception(env_, error);
  }
  return false;
}

void Environment::init_exports(napi_value exports) {
  constexpr size_t kSlots = static_cast<size_t>(Slot::kCount);
  void* data = nullptr;
  napi_value buffer, values, names, codes;
  napi_create_arraybuffer(env_, kSlots * sizeof(double), &data, &buffer);
  slots_ = static_cast<double*>(data);
  napi_create_typedarray(env_, napi_float64_array, kSlots, buffer, 0, &values);
  napi_create_reference(env_, buffer, 1, &slots_ref_);
  napi_set_named_property(env_, exports, "results", values);

  napi_create_object(env_, &names);
#define X(name, text) napi_set_named_property(env_, names, text, number(env_, static_cast<double>(Slot::name)));
  BROADSHEET_SLOTS(X)
#undef X
  napi_set_named_property(env_, exports, "slots", names);

  napi_create_array(env_, &codes);
#define X(name, value, text) napi_set_element(env_, codes, value, string(env_, text));
  BROADSHEET_CODES(X)
#undef X
  napi_set_named_property(env_, exports, "codes", codes);
}

Reference::Reference(napi_env env, napi_value value) : env_(env) { napi_create_reference(env, value, 1, &ref_); }

Reference::~Reference() { reset(); }

Reference::Reference(Reference&& other) noexcept : env_(other.env_), ref_(other.ref_) { other.ref_ = nullptr; }

Reference& Reference::operator=(Reference&& other) noexcept {
  if (this != &other) {
    reset();
    env_ = other.env_;
    ref_ = other.ref_;
    other.ref_ = nullptr;
  }
  return *this;
}

napi_value Reference::value() const {
  napi_value value = nullptr;
  napi_get_reference_value(env_, ref_, &value);
  return value;
}

bool Reference::call(std::initializer_list<napi_value> arguments, napi_value* result) const {
  return Environment::of(env_).call(value(), arguments, result);
}

void Reference::reset() {
  if (ref_ != nullptr) napi_delete_reference(env_, ref_);
  ref_ = nullptr;
}

Args::Args(napi_env env, napi_callback_info info) : env_(env), environment_(Environment::of(env)) {
  // Those not given are filled with undefined.
  napi_get_cb_info(env, info, &count_, values_, nullptr, nullptr);
}

void Args::refuse(const char* name, const char* expected) {
  if (status_.ok()) status_ = Status::Of(Code::kInvalidArgument, std::string(name) + " must be " + expected);
}

napi_value Args::reject() { return environment_.fail(std::move(status_)); }

napi_value Args::reject_cold() { return status_object(env_, status_); }

bool Args::absent(size_t index) const {
  napi_valuetype type;
  napi_typeof(env_, values_[index], &type);
  return type == napi_undefined || type == napi_null;
}

Bytes Args::bytes(size_t index, const char* name) {
  Bytes result;
  bool is_view = false;
  void* data = nullptr;
  napi_is_buffer(env_, values_[index], &is_view);
  if (!is_view || napi_get_buffer_info(env_, values_[index], &data, &result.length) != napi_ok) {
    refuse(name, "a Uint8Array");
    return {};
  }
  result.data = static_cast<uint8_t*>(data);
  return result;
}

Bytes Args::slice(size_t index) {
  const Bytes whole = bytes(index, "bytes");
  const int64_t start = integer(index + 1, "start");
  const int64_t end = integer(index + 2, "end");
  if (!ok()) return {};
  if (start > end || end > static_cast<int64_t>(whole.length)) {
    refuse("start and end", "within the bytes");
    return {};
  }
  return {whole.data + start, static_cast<size_t>(end - start)};
}

int64_t Args::integer(size_t index, const char* name, int64_t min, int64_t max) {
  double value;
  if (napi_get_value_double(env_, values_[index], &value) != napi_ok || !(value >= static_cast<double>(min)) ||
      !(value <= static_cast<double>(max)) || value != std::floor(value)) {
    refuse(name, ("an integer from " + std::to_string(min) + " to " + std::to_string(max)).c_str());
    return 0;
  }
  return static_cast<int64_t>(value);
}

double Args::number(size_t index, const char* name) {
  double value;
  if (napi_get_value_double(env_, values_[index], &value) != napi_ok || std::isnan(value)) {
    refuse(name, "a number");
    return 0;
  }
  return value;
}

bool Args::boolean(size_t index, const char* name) {
  bool value = false;
  if (napi_get_value_bool(env_, values_[index], &value) != napi_ok) refuse(name, "a boolean");
  return value;
}

std::string Args::string(size_t index, const char* name) {
  size_t length = 0;
  if (napi_get_value_string_utf8(env_, values_[index], nullptr, 0, &length) != napi_ok) {
    refuse(name, "a string");
    return {};
  }
  std::string value(length, '\0');
  napi_get_value_string_utf8(env_, values_[index], value.data(), length + 1, &length);
  return value;
}

napi_value Args::function(size_t index, const char* name) {
  napi_valuetype type;
  if (napi_typeof(env_, values_[index], &type) != napi_ok || type != napi_function) refuse(name, "a function");
  return values_[index];
}

napi_value Args::array(size_t index, const char* name, uint32_t* length) {
  bool is_array = false;
  *length = 0;
  napi_is_array(env_, values_[index], &is_array);
  if (!is_array || napi_get_array_length(env_, values_[index], length) != napi_ok) refuse(name, "an array");
  return values_[index];
}

napi_value number(napi_env env, double value) {
  napi_value result = nullptr;
  napi_create_double(env, value, &result);
  return result;
}

napi_value boolean(napi_env env, bool value) {
  napi_value result = nullptr;
  napi_get_boolean(env, value, &result);
  return result;
}

napi_value string(napi_env env, const std::string& value) {
  napi_value result = nullptr;
  napi_create_string_utf8(env, value.data(), value.size(), &result);
  return result;
}

napi_value undefined(napi_env env) {
  napi_value result = nullptr;
  napi_get_undefined(env, &result);
  return result;
}

napi_value status_object(napi_env env, const Status& status) {
  if (status.ok()) return undefined(env);
  const char* code = "IO";
  switch (status.code) {
#define X(name, value, text) \
  case Code::name:           \
    code = text;             \
    break;
    BROADSHEET_CODES(X)
#undef X
  }
  napi_value result = nullptr;
  napi_create_object(env, &result);
  napi_set_named_property(env, result, "code", string(env, code));
  napi_set_named_property(env, result, "errno", number(env, status.error_number));
  napi_set_named_property(env, result, "context", string(env, status.context));
  return result;
}

void define(napi_env env, napi_value object, std::initializer_list<Method> methods) {
  for (const Method& method : methods) {
    napi_value function = nullptr;
    napi_create_function(env, method.name, NAPI_AUTO_LENGTH, method.function, nullptr, &function);
    napi_set_named_property(env, object, method.name, function);
  }
}

}  // namespace broadsheet
