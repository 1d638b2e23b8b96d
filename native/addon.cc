// Registers everything: one Environment per main thread or worker that loads the addon, and the functions of each
// binding.
#include "bindings.h"
#include "napi_util.h"

namespace broadsheet {
namespace {

napi_value last_status(napi_env env, napi_callback_info) {
  return status_object(env, Environment::of(env).last_status());
}

Napi::Object init_addon(Napi::Env env, Napi::Object exports) {
  Environment* environment = new Environment(env);
  napi_set_instance_data(
      env, environment, [](napi_env, void* data, void*) { delete static_cast<Environment*>(data); }, nullptr);
  environment->init_exports(exports);
  define(env, exports, {{"lastStatus", last_status}});
  init_batch_binding(env, exports);
  init_cleaner_binding(env, exports);
  init_file_binding(env, exports);
  init_test_binding(env, exports);
  init_socket_binding(env, exports);
  init_log_binding(env, exports);
  init_open_file_binding(env, exports);
  return exports;
}

}  // namespace
}  // namespace broadsheet

namespace {

Napi::Object init(Napi::Env env, Napi::Object exports) { return broadsheet::init_addon(env, exports); }

}  // namespace

NODE_API_MODULE(broadsheet, init)
