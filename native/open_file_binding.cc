// Open files for JavaScript: handles that hold one beyond its turn, for transports of another kind, and the budget of
// descriptors.
#include <utility>

#include "bindings.h"
#include "descriptor_cache.h"
#include "napi_util.h"

namespace broadsheet {
namespace {

Status no_file() { return Status::Of(Code::kClosed, "the file is not open any more"); }

// fileHold(segment): another handle of the file, good until fileRelease
napi_value file_hold(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const int64_t segment = args.integer(0, "segment");
  if (!args.ok()) return args.reject();
  FileTable& files = args.environment().files();
  std::shared_ptr<File> file = files.find(segment);
  if (file == nullptr) return args.environment().fail(no_file());
  return number(env, static_cast<double>(files.add(std::move(file))));
}

// fileDescriptor(file): its descriptor
napi_value file_descriptor(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const int64_t handle = args.integer(0, "file");
  if (!args.ok()) return args.reject();
  const std::shared_ptr<File> file = args.environment().files().find(handle);
  return file == nullptr ? args.environment().fail(no_file()) : number(env, file->descriptor());
}

// fileRelease(file): 0
napi_value file_release(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const int64_t handle = args.integer(0, "file");
  if (!args.ok()) return args.reject();
  return args.environment().files().remove(handle) ? number(env, 0) : args.environment().fail(no_file());
}

// descriptorCache(files): sets the limit when given (0: by the process's), and tells what is open
napi_value descriptor_cache(napi_env env, napi_callback_info info) {
  Args args(env, info);
  if (!args.absent(0)) {
    const int64_t files = args.integer(0, "files", 0, INT32_MAX);
    if (!args.ok()) return args.reject();
    DescriptorCache::instance().set_limit(static_cast<size_t>(files));
  }
  const DescriptorCache::Stats stats = DescriptorCache::instance().stats();
  napi_value result = nullptr;
  napi_create_object(env, &result);
  napi_set_named_property(env, result, "openFiles", number(env, static_cast<double>(stats.open_files)));
  napi_set_named_property(env, result, "forcedSyncs", number(env, static_cast<double>(stats.forced_syncs)));
  return result;
}

}  // namespace

void init_open_file_binding(napi_env env, napi_value exports) {
  define(env, exports,
         {{"fileHold", file_hold},
          {"fileDescriptor", file_descriptor},
          {"fileRelease", file_release},
          {"descriptorCache", descriptor_cache}});
}

}  // namespace broadsheet
