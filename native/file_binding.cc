// Whole-file operations for JavaScript: each is one work on an I/O thread and ends in callback(status, result).
#include "bindings.h"
#include "napi_util.h"
#include "whole_files.h"

namespace broadsheet {
namespace {

// Runs work(&result) on an I/O thread, then calls the callback with the Status, or with undefined and what
// convert(env, result) makes of the result.
template <class Result, class Work, class Convert>
napi_value run(Args* args, size_t callback_index, Work work, Convert convert) {
  const napi_value function = args->function(callback_index, "callback");
  if (!args->ok()) return args->reject();
  struct Operation {
    Reference callback;
    Result result{};
    Status status;
  };
  Environment& environment = args->environment();
  auto operation = std::make_shared<Operation>();
  operation->callback = Reference(environment.env(), function);
  environment.io().submit(
      [operation, work = std::move(work)] { operation->status = work(&operation->result); },
      [operation, &environment, convert = std::move(convert)] {
        napi_env env = environment.env();
        if (operation->status.ok()) {
          operation->callback.call({undefined(env), convert(env, &operation->result)});
        } else {
          operation->callback.call({status_object(env, operation->status)});
        }
      });
  return number(environment.env(), 0);
}

struct Nothing {};

template <class Work>
napi_value run(Args* args, size_t callback_index, Work work) {
  return run<Nothing>(
      args, callback_index, [work = std::move(work)](Nothing*) { return work(); },
      [](napi_env env, Nothing*) { return undefined(env); });
}

// Text or bytes, copied: JavaScript may change them while the thread writes.
std::string content(Args* args, size_t index) {
  napi_valuetype type;
  napi_typeof(args->environment().env(), args->raw(index), &type);
  if (type == napi_string) return args->string(index, "data");
  const Bytes bytes = args->bytes(index, "data");
  return std::string(reinterpret_cast<const char*>(bytes.data), bytes.length);
}

napi_value read_file(napi_env env, napi_callback_info info) {
  Args args(env, info);
  std::string path = args.string(0, "path");
  const int64_t max_bytes = args.integer(1, "maxBytes");
  return run<std::string>(
      &args, 2, [path = std::move(path), max_bytes](std::string* out) { return read_whole(path, max_bytes, out); },
      [](napi_env env, std::string* bytes) {
        napi_value buffer = nullptr;
        napi_create_buffer_copy(env, bytes->size(), bytes->data(), nullptr, &buffer);
        return buffer;
      });
}

napi_value write_atomic_call(napi_env env, napi_callback_info info) {
  Args args(env, info);
  std::string path = args.string(0, "path");
  std::string data = content(&args, 1);
  return run(&args, 2, [path = std::move(path), data = std::move(data)] { return write_atomic(path, data); });
}

// Gives whether the folder was made.
napi_value create_in_folder_call(napi_env env, napi_callback_info info) {
  Args args(env, info);
  std::string path = args.string(0, "path");
  std::string data = content(&args, 1);
  std::string empty = args.string(2, "empty");
  return run<bool>(
      &args, 3,
      [path = std::move(path), data = std::move(data), empty = std::move(empty)](bool* made) {
        return create_in_folder(path, data, empty, made);
      },
      [](napi_env env, bool* made) { return boolean(env, *made); });
}

napi_value list_folder(napi_env env, napi_callback_info info) {
  Args args(env, info);
  std::string path = args.string(0, "path");
  using Entries = std::vector<DirectoryEntry>;
  return run<Entries>(
      &args, 1, [path = std::move(path)](Entries* out) { return list_directory(path, out); },
      [](napi_env env, Entries* entries) {
        napi_value array = nullptr;
        napi_create_array_with_length(env, entries->size(), &array);
        uint32_t index = 0;
        for (const DirectoryEntry& entry : *entries) {
          napi_value item = nullptr;
          napi_create_object(env, &item);
          napi_set_named_property(env, item, "name", string(env, entry.name));
          napi_set_named_property(env, item, "directory", boolean(env, entry.directory));
          napi_set_named_property(env, item, "size", number(env, static_cast<double>(entry.size)));
          napi_set_element(env, array, index++, item);
        }
        return array;
      });
}

napi_value path_exists(napi_env env, napi_callback_info info) {
  Args args(env, info);
  std::string path = args.string(0, "path");
  return run<bool>(
      &args, 1,
      [path = std::move(path)](bool* out) {
        struct stat facts;
        Status status = stat_path(path, &facts);
        *out = status.ok();
        return status.code == Code::kNotFound ? Status::Ok() : status;
      },
      [](napi_env env, bool* found) { return boolean(env, *found); });
}

// make_directories, remove_durable, remove_tree: a path and nothing else.
template <Status (*kOperation)(const std::string&)>
napi_value path_call(napi_env env, napi_callback_info info) {
  Args args(env, info);
  std::string path = args.string(0, "path");
  return run(&args, 1, [path = std::move(path)] { return kOperation(path); });
}

napi_value rename_call(napi_env env, napi_callback_info info) {
  Args args(env, info);
  std::string from = args.string(0, "from");
  std::string to = args.string(1, "to");
  return run(&args, 2, [from = std::move(from), to = std::move(to)] { return rename_durable(from, to); });
}

napi_value lock_file(napi_env env, napi_callback_info info) {
  Args args(env, info);
  std::string path = args.string(0, "path");
  std::string text = args.string(1, "content");
  using Lock = std::unique_ptr<FileLock>;
  return run<Lock>(
      &args, 2,
      [path = std::move(path), text = std::move(text)](Lock* out) { return FileLock::acquire(path, text, out); },
      [](napi_env env, Lock* lock) {
        return number(env, static_cast<double>(Environment::of(env).locks().add(std::move(*lock))));
      });
}

napi_value release_lock(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const int64_t handle = args.integer(0, "lock");
  if (!args.ok()) return args.reject();
  if (!args.environment().locks().remove(handle)) {
    return args.environment().fail(Status::Of(Code::kClosed, "the lock was released before"));
  }
  return number(env, 0);
}

}  // namespace

void init_file_binding(napi_env env, napi_value exports) {
  define(env, exports,
         {{"readFile", read_file},
          {"writeAtomic", write_atomic_call},
          {"createInFolder", create_in_folder_call},
          {"listFolder", list_folder},
          {"pathExists", path_exists},
          {"makeFolder", path_call<make_directories>},
          {"syncFolder", path_call<sync_directory>},
          {"renamePath", rename_call},
          {"removeFile", path_call<remove_durable>},
          {"removeTree", path_call<remove_tree>},
          {"lockFile", lock_file},
          {"releaseLock", release_lock}});
}

}  // namespace broadsheet
