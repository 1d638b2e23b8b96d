// The log cleaner's work for JavaScript: hot calls, on bytes that it holds.
#include "bindings.h"
#include "cleaner.h"
#include "napi_util.h"

namespace broadsheet {
namespace {

constexpr size_t kSecretBytes = 16;

// Arguments 0 and 1: the map's memory and its secret.
struct MapArguments {
  Bytes memory;
  Bytes secret;

  explicit MapArguments(Args* args) : memory(args->bytes(0, "map")), secret(args->bytes(1, "secret")) {}

  bool valid() const {
    return memory.length >= sizeof(KeyMap::Slot) && memory.length % sizeof(KeyMap::Slot) == 0 &&
           reinterpret_cast<uintptr_t>(memory.data) % alignof(KeyMap::Slot) == 0 && secret.length == kSecretBytes;
  }
  KeyMap map() const {
    return KeyMap(reinterpret_cast<KeyMap::Slot*>(memory.data), memory.length / sizeof(KeyMap::Slot), secret.data);
  }
};

Status invalid_map() { return Status::Of(Code::kInvalidArgument, "map and secret must be those of an OffsetMap"); }

napi_value learn_keys_call(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const MapArguments map(&args);
  const int64_t room = args.integer(2, "room");
  const Bytes bytes = args.slice(3);
  const int64_t count = args.integer(6, "count", 0, INT32_MAX);
  const double base_offset = args.number(7, "baseOffset");
  const double from = args.number(8, "from");
  if (!args.ok()) return args.reject();
  Environment& environment = args.environment();
  if (!map.valid()) return environment.fail(invalid_map());

  Learned learned;
  Status status =
      learn_keys(map.map(), {bytes.data, bytes.length, count, base_offset}, from, room, &learned);
  if (!status.ok()) return environment.fail(std::move(status));
  environment.set(Slot::kWalked, learned.all ? 1 : 0);
  return number(env, static_cast<double>(learned.added));
}

napi_value sift_records_call(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const MapArguments map(&args);
  const Bytes bytes = args.slice(2);
  const int64_t count = args.integer(5, "count", 0, INT32_MAX);
  const double base_offset = args.number(6, "baseOffset");
  const double up_to = args.number(7, "upTo");
  const bool drops_tombstones = args.boolean(8, "dropsTombstones");
  const Bytes into = args.bytes(9, "into");
  const int64_t at = args.integer(10, "at");
  if (!args.ok()) return args.reject();
  Environment& environment = args.environment();
  if (!map.valid()) return environment.fail(invalid_map());
  if (at > static_cast<int64_t>(into.length) || into.length - static_cast<size_t>(at) < bytes.length) {
    return environment.fail(Status::Of(Code::kInvalidArgument, "into must have room for all records"));
  }

  Sifted sifted;
  Status status = sift_records(map.map(), {bytes.data, bytes.length, count, base_offset}, up_to, drops_tombstones,
                               into.data + at, &sifted);
  if (!status.ok()) return environment.fail(std::move(status));
  environment.set(Slot::kLength, static_cast<double>(sifted.bytes));
  environment.set(Slot::kTombstones, sifted.tombstones ? 1 : 0);
  environment.set(Slot::kRecordsMaxTimestamp, sifted.latest_delta);
  return number(env, static_cast<double>(sifted.kept));
}

}  // namespace

void init_cleaner_binding(napi_env env, napi_value exports) {
  define(env, exports, {{"learnKeys", learn_keys_call}, {"siftRecords", sift_records_call}});
}

}  // namespace broadsheet
