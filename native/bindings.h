// One function per binding, called by addon.cc when the module is made for an environment. Each adds its functions to
// the exports.
#pragma once

#include <napi.h>

namespace broadsheet {

void init_batch_binding(napi_env env, napi_value exports);
void init_cleaner_binding(napi_env env, napi_value exports);
void init_file_binding(napi_env env, napi_value exports);
void init_test_binding(napi_env env, napi_value exports);
void init_socket_binding(napi_env env, napi_value exports);
void init_log_binding(napi_env env, napi_value exports);
void init_open_file_binding(napi_env env, napi_value exports);

}  // namespace broadsheet
