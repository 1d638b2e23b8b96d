// Checksums and record batches for JavaScript: all hot calls, on bytes that it holds.
#include "bindings.h"
#include "crc32c.h"
#include "napi_util.h"
#include "record_batch.h"

namespace broadsheet {
namespace {

// Nearest int64: +-Infinity means no bound.
int64_t to_int64(double value) {
  if (value >= 9223372036854775807.0) return INT64_MAX;
  if (value <= -9223372036854775808.0) return INT64_MIN;
  return static_cast<int64_t>(value);
}

void fill_header(Environment& to, const BatchHeader& header) {
  to.set(Slot::kBaseOffset, static_cast<double>(header.base_offset));
  to.set(Slot::kLastOffset, static_cast<double>(header.last_offset()));
  to.set(Slot::kBaseTimestamp, static_cast<double>(header.base_timestamp));
  to.set(Slot::kMaxTimestamp, static_cast<double>(header.max_timestamp));
  to.set(Slot::kProducerId, static_cast<double>(header.producer_id));
  to.set(Slot::kProducerEpoch, header.producer_epoch);
  to.set(Slot::kBaseSequence, header.base_sequence);
  to.set(Slot::kRecordCount, header.record_count);
  to.set(Slot::kAttributes, header.attributes & 0xffff);
  to.set(Slot::kLeaderEpoch, header.leader_epoch);
  to.set(Slot::kSizeInBytes, static_cast<double>(header.size()));
  to.set(Slot::kCompression, header.compression());
}

void fill_records(Environment& to, const RecordsFacts& facts) {
  to.set(Slot::kRecordsMaxTimestamp, static_cast<double>(facts.max_timestamp));
  to.set(Slot::kRecordsMaxIndex, facts.max_timestamp_index);
  to.set(Slot::kNullKeyIndex, facts.null_key_index);
  to.set(Slot::kInvalidIndex, facts.invalid_index);
  to.set(Slot::kInvalidTimestamp, static_cast<double>(facts.invalid_timestamp));
}

napi_value inspect_batch(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Bytes bytes = args.slice(0);
  const int64_t max_message_bytes = args.integer(3, "maxMessageBytes");
  const TimestampBounds bounds{to_int64(args.number(4, "oldest")), to_int64(args.number(5, "newest"))};
  if (!args.ok()) return args.reject();

  Environment& environment = args.environment();
  BatchHeader header;
  RecordsFacts facts;
  bool has_header = false;
  bool walked = false;
  Status status = inspect_produced_batch(bytes.data, bytes.length, max_message_bytes, bounds, &header, &has_header,
                                         &facts, &walked);
  if (has_header) {
    fill_header(environment, header);
  } else {
    environment.set(Slot::kSizeInBytes, 0);
  }
  environment.set(Slot::kWalked, walked ? 1 : 0);
  fill_records(environment, facts);
  if (!status.ok()) return environment.fail(std::move(status));
  return number(env, static_cast<double>(header.size()));
}

napi_value walk_records_call(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Bytes bytes = args.slice(0);
  const int64_t count = args.integer(3, "count", 0, INT32_MAX);
  const int64_t base_timestamp = to_int64(args.number(4, "baseTimestamp"));
  const TimestampBounds bounds{to_int64(args.number(5, "oldest")), to_int64(args.number(6, "newest"))};
  if (!args.ok()) return args.reject();

  RecordsFacts facts;
  Status status =
      walk_records(bytes.data, bytes.length, static_cast<int32_t>(count), base_timestamp, bounds, &facts);
  fill_records(args.environment(), facts);
  if (!status.ok()) return args.environment().fail(std::move(status));
  return number(env, 0);
}

napi_value patch_batch(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Bytes bytes = args.slice(0);
  const bool log_append_time = args.boolean(3, "logAppendTime");
  const int64_t max_timestamp = to_int64(args.number(4, "maxTimestamp"));
  if (!args.ok()) return args.reject();
  if (bytes.length < kBatchHeaderSize || bytes.length != read_batch_header(bytes.data).size()) {
    return args.environment().fail(Status::Of(Code::kInvalidArgument, "start and end must hold exactly one batch"));
  }
  set_batch_timestamp(bytes.data, log_append_time, max_timestamp);
  return number(env, 0);
}

napi_value crc32c_call(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Bytes bytes = args.slice(0);
  if (!args.ok()) return args.reject();
  return number(env, crc32c(bytes.data, bytes.length));
}

napi_value crc32c_by_call(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const Bytes bytes = args.slice(0);
  const std::string name = args.string(3, "path");
  if (!args.ok()) return args.reject();
  const Crc32cPath path = name == "portable" ? Crc32cPath::kPortable : Crc32cPath::kHardware;
  if ((name != "portable" && name != "hardware") || !crc32c_available(path)) {
    return args.environment().fail(Status::Of(Code::kInvalidArgument, "there is no CRC32C path '" + name + "' here"));
  }
  return number(env, crc32c_by(path, bytes.data, bytes.length));
}

}  // namespace

void init_batch_binding(napi_env env, napi_value exports) {
  define(env, exports,
         {{"inspectBatch", inspect_batch},
          {"walkRecords", walk_records_call},
          {"patchBatch", patch_batch},
          {"crc32c", crc32c_call},
          {"crc32cBy", crc32c_by_call}});
}

}  // namespace broadsheet
