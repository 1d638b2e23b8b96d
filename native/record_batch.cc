#include "record_batch.h"

#include "crc32c.h"
#include "record_reader.h"

namespace broadsheet {

namespace {

constexpr int32_t kSmallestLength = 14;  // of magic 0: crc, magic, attributes, key and value length
constexpr int8_t kMagic = 2;

Status corrupt(std::string context) { return Status::Of(Code::kBatchCorrupt, std::move(context)); }
Status invalid(std::string context) { return Status::Of(Code::kBatchInvalid, std::move(context)); }

enum class Frame { kWhole, kIncomplete, kBad };

// Whether [bytes, bytes + available) begins with a whole batch or message of any magic, judged as Kafka's reader does.
Frame frame_at(const uint8_t* bytes, size_t available, Status* bad) {
  if (available < kBatchLengthEnd) return Frame::kIncomplete;
  const int32_t batch_length = load_int32(bytes + 8);
  if (batch_length < kSmallestLength) {
    *bad = corrupt("the batch length " + std::to_string(batch_length) + " is less than the least possible, " +
                   std::to_string(kSmallestLength));
    return Frame::kBad;
  }
  if (available < kBatchMagicEnd) return Frame::kIncomplete;
  const int8_t magic = static_cast<int8_t>(bytes[16]);
  if (magic < 0 || magic > kMagic) {
    *bad = corrupt("the magic byte is " + std::to_string(magic) + ", expected 2");
    return Frame::kBad;
  }
  return static_cast<size_t>(batch_length) > available - kBatchLengthEnd ? Frame::kIncomplete : Frame::kWhole;
}

std::string too_long(const char* what, int32_t length, size_t left) {
  return std::string(what) + " length " + std::to_string(length) +
         (length < 0 ? " is negative" : " is more than the " + std::to_string(left) + " bytes left");
}

// One record. Returns what is wrong with it; empty when nothing.
std::string walk_record(RecordReader* in, int32_t index, int64_t* timestamp_delta, bool* null_key) {
  const int32_t length = in->varint();
  if (in->failed()) return "its length is not a whole varint";
  if (length < 0 || static_cast<size_t>(length) > in->remaining()) return too_long("record", length, in->remaining());

  const uint8_t* end = in->at() + length;
  RecordReader record(in->at(), end);
  record.byte();  // attributes: none is in use
  *timestamp_delta = record.varlong();
  const int32_t offset_delta = record.varint();
  const int32_t key_length = record.varint();
  if (record.failed()) return "it ends before its key";
  if (offset_delta != index) {
    return "offset delta " + std::to_string(offset_delta) + ", expected " + std::to_string(index);
  }
  *null_key = key_length == -1;
  if (key_length != -1 && !record.skip(key_length)) return too_long("key", key_length, record.remaining());

  const int32_t value_length = record.varint();
  if (record.failed()) return "it ends before its value";
  if (value_length != -1 && !record.skip(value_length)) return too_long("value", value_length, record.remaining());

  const int32_t headers = record.varint();
  if (record.failed()) return "it ends before its headers";
  // A header takes two bytes at least.
  if (headers < 0 || static_cast<size_t>(headers) > record.remaining() / 2) {
    return "header count " + std::to_string(headers) + " does not fit into the " + std::to_string(record.remaining()) +
           " bytes left";
  }
  for (int32_t header = 0; header < headers; ++header) {
    const int32_t name_length = record.varint();
    if (record.failed()) return "it ends within its headers";
    if (!record.skip(name_length)) return too_long("header key", name_length, record.remaining());
    const int32_t content_length = record.varint();
    if (record.failed()) return "it ends within its headers";
    if (content_length != -1 && !record.skip(content_length)) {
      return too_long("header value", content_length, record.remaining());
    }
  }
  if (record.remaining() != 0) return std::to_string(record.remaining()) + " bytes too many for its content";
  in->skip(length);
  return {};
}

Status check_counts(const BatchHeader& header) {
  if (header.record_count <= 0) return invalid("the record count is " + std::to_string(header.record_count));
  if (header.last_offset_delta < 0 || header.last_offset_delta != header.record_count - 1) {
    return invalid("the last offset delta " + std::to_string(header.last_offset_delta) +
                   " does not fit the record count " + std::to_string(header.record_count));
  }
  if (header.producer_id >= 0 && header.base_sequence < 0) {
    return invalid("the base sequence is " + std::to_string(header.base_sequence) + ", with producer id " +
                   std::to_string(header.producer_id));
  }
  if (header.compression() > 4) {
    return invalid("compression codec " + std::to_string(header.compression()) + " is unknown");
  }
  if ((header.attributes & kDeleteHorizonBit) != 0) {
    return invalid("the delete horizon flag is not a producer's to set");
  }
  return Status::Ok();
}

}  // namespace

BatchHeader read_batch_header(const uint8_t* bytes) {
  BatchHeader header;
  header.base_offset = load_int64(bytes);
  header.batch_length = load_int32(bytes + 8);
  header.leader_epoch = load_int32(bytes + 12);
  header.magic = static_cast<int8_t>(bytes[16]);
  header.crc = static_cast<uint32_t>(load_int32(bytes + 17));
  header.attributes = load_int16(bytes + 21);
  header.last_offset_delta = load_int32(bytes + 23);
  header.base_timestamp = load_int64(bytes + 27);
  header.max_timestamp = load_int64(bytes + 35);
  header.producer_id = load_int64(bytes + 43);
  header.producer_epoch = load_int16(bytes + 51);
  header.base_sequence = load_int32(bytes + 53);
  header.record_count = load_int32(bytes + 57);
  return header;
}

bool batch_crc_fits(const uint8_t* batch, const BatchHeader& header) {
  return crc32c(batch + kBatchCrcStart, header.size() - kBatchCrcStart) == header.crc;
}

void set_batch_timestamp(uint8_t* batch, bool log_append_time, int64_t max_timestamp) {
  int16_t attributes = load_int16(batch + 21);
  attributes = static_cast<int16_t>(log_append_time ? attributes | kLogAppendTimeBit : attributes & ~kLogAppendTimeBit);
  store_int16(batch + 21, attributes);
  store_int64(batch + 35, max_timestamp);
  const size_t size = kBatchLengthEnd + static_cast<size_t>(load_int32(batch + 8));
  store_int32(batch + 17, static_cast<int32_t>(crc32c(batch + kBatchCrcStart, size - kBatchCrcStart)));
}

Status walk_records(const uint8_t* records, size_t length, int32_t count, int64_t base_timestamp,
                    const TimestampBounds& bounds, RecordsFacts* facts) {
  *facts = {};
  RecordReader in(records, records + length);
  Status late;
  for (int32_t index = 0; index < count; ++index) {
    if (in.remaining() == 0) {
      facts->invalid_index = index;
      return invalid("the batch counts " + std::to_string(count) + " records and holds " + std::to_string(index));
    }
    int64_t delta = 0;
    bool null_key = false;
    const std::string wrong = walk_record(&in, index, &delta, &null_key);
    if (!wrong.empty()) {
      facts->invalid_index = index;
      return invalid("record " + std::to_string(index) + ": " + wrong);
    }
    if (null_key && facts->null_key_index < 0) facts->null_key_index = index;
    const int64_t timestamp =
        static_cast<int64_t>(static_cast<uint64_t>(base_timestamp) + static_cast<uint64_t>(delta));
    if (facts->max_timestamp_index < 0 || timestamp > facts->max_timestamp) {
      facts->max_timestamp = timestamp;
      facts->max_timestamp_index = index;
    }
    if (late.ok() && timestamp != -1 && (timestamp < bounds.oldest || timestamp > bounds.newest)) {
      facts->invalid_index = index;
      facts->invalid_timestamp = timestamp;
      late = Status::Of(Code::kTimestampInvalid, "record " + std::to_string(index) + ": timestamp " +
                                                     std::to_string(timestamp) + " is out of bounds");
    }
  }
  if (in.remaining() != 0) {
    facts->invalid_index = -1;
    return invalid(std::to_string(in.remaining()) + " bytes follow the " + std::to_string(count) +
                   " records that the batch counts");
  }
  return late;
}

Status inspect_produced_batch(const uint8_t* bytes, size_t length, int64_t max_message_bytes,
                              const TimestampBounds& bounds, BatchHeader* header, bool* has_header,
                              RecordsFacts* facts, bool* walked) {
  *has_header = false;
  *walked = false;
  *facts = {};

  Status bad;
  switch (frame_at(bytes, length, &bad)) {
    case Frame::kBad:
      return bad;
    case Frame::kIncomplete:
      return invalid("the request holds no whole record batch for this partition");
    case Frame::kWhole:
      break;
  }
  const int8_t magic = static_cast<int8_t>(bytes[16]);
  if (magic != kMagic) return invalid("the batch has magic " + std::to_string(magic) + ", this version takes 2 only");
  const size_t size = kBatchLengthEnd + static_cast<size_t>(load_int32(bytes + 8));
  if (size >= kBatchHeaderSize) {
    *header = read_batch_header(bytes);
    *has_header = true;
  }

  switch (frame_at(bytes + size, length - size, &bad)) {
    case Frame::kBad:
      return corrupt("behind the first batch: " + bad.context);
    case Frame::kWhole:
      return invalid("a produce request takes exactly one record batch per partition, this has more");
    case Frame::kIncomplete:
      break;
  }

  const int64_t base_offset = load_int64(bytes);
  if (base_offset != 0) return invalid("the base offset is " + std::to_string(base_offset) + ", a producer sends 0");
  if (static_cast<int64_t>(size) > max_message_bytes) {
    return Status::Of(Code::kBatchTooLarge, "the batch has " + std::to_string(size) +
                                                " bytes, more than max.message.bytes=" +
                                                std::to_string(max_message_bytes));
  }
  if (!*has_header) {
    return corrupt("the batch has " + std::to_string(size) + " bytes, its header alone takes " +
                   std::to_string(kBatchHeaderSize));
  }
  if (!batch_crc_fits(bytes, *header)) return corrupt("the batch's CRC32C does not fit its content");
  if (Status status = check_counts(*header); !status.ok()) return status;
  if (header->compression() != 0) return Status::Ok();

  *walked = true;
  return walk_records(bytes + kBatchHeaderSize, size - kBatchHeaderSize, header->record_count, header->base_timestamp,
                      bounds, facts);
}

}  // namespace broadsheet
