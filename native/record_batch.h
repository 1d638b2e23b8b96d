// The v2 record batch (KIP-98): its header, its checksum, and the records in it. All big-endian.
//
//   0 int64 baseOffset          21 int16 attributes          43 int64 producerId
//   8 int32 batchLength         23 int32 lastOffsetDelta     51 int16 producerEpoch
//  12 int32 partitionLeaderEpoch 27 int64 baseTimestamp      53 int32 baseSequence
//  16 int8  magic               35 int64 maxTimestamp        57 int32 recordCount
//  17 uint32 crc: CRC32C of all from 21 on                   61 records
#pragma once

#include <cstddef>
#include <cstdint>

#include "status.h"

namespace broadsheet {

constexpr size_t kBatchHeaderSize = 61;
constexpr size_t kBatchLengthEnd = 12;  // batchLength counts what comes after it
constexpr size_t kBatchMagicEnd = 17;
constexpr size_t kBatchCrcStart = 21;

constexpr int16_t kCompressionMask = 0x07;
constexpr int16_t kLogAppendTimeBit = 0x08;
constexpr int16_t kControlBit = 0x20;
constexpr int16_t kDeleteHorizonBit = 0x40;

struct BatchHeader {
  int64_t base_offset = 0;
  int32_t batch_length = 0;
  int32_t leader_epoch = 0;
  int8_t magic = 0;
  uint32_t crc = 0;
  int16_t attributes = 0;
  int32_t last_offset_delta = 0;
  int64_t base_timestamp = 0;
  int64_t max_timestamp = 0;
  int64_t producer_id = 0;
  int16_t producer_epoch = 0;
  int32_t base_sequence = 0;
  int32_t record_count = 0;

  // Whole batch, bytes. Only after batch_length was checked.
  size_t size() const { return kBatchLengthEnd + static_cast<size_t>(batch_length); }
  int64_t last_offset() const { return base_offset + last_offset_delta; }
  int compression() const { return attributes & kCompressionMask; }
};

// Big-endian access to unaligned memory.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
inline int16_t load_int16(const uint8_t* p) {
  uint16_t value;
  __builtin_memcpy(&value, p, sizeof value);
  return static_cast<int16_t>(__builtin_bswap16(value));
}
inline int32_t load_int32(const uint8_t* p) {
  uint32_t value;
  __builtin_memcpy(&value, p, sizeof value);
  return static_cast<int32_t>(__builtin_bswap32(value));
}
inline int64_t load_int64(const uint8_t* p) {
  uint64_t value;
  __builtin_memcpy(&value, p, sizeof value);
  return static_cast<int64_t>(__builtin_bswap64(value));
}
inline void store_int16(uint8_t* p, int16_t value) {
  const uint16_t swapped = __builtin_bswap16(static_cast<uint16_t>(value));
  __builtin_memcpy(p, &swapped, sizeof swapped);
}
inline void store_int32(uint8_t* p, int32_t value) {
  const uint32_t swapped = __builtin_bswap32(static_cast<uint32_t>(value));
  __builtin_memcpy(p, &swapped, sizeof swapped);
}
inline void store_int64(uint8_t* p, int64_t value) {
  const uint64_t swapped = __builtin_bswap64(static_cast<uint64_t>(value));
  __builtin_memcpy(p, &swapped, sizeof swapped);
}

// Reads 61 bytes, checks nothing.
BatchHeader read_batch_header(const uint8_t* bytes);

// These two lie outside of the checksum.
inline void set_base_offset(uint8_t* batch, int64_t offset) { store_int64(batch, offset); }
inline void set_leader_epoch(uint8_t* batch, int32_t epoch) { store_int32(batch + 12, epoch); }

// Whether the checksum fits; the whole batch must be there.
bool batch_crc_fits(const uint8_t* batch, const BatchHeader& header);

// Sets the timestamp type and maxTimestamp, and makes the checksum fit again. The batch must be whole.
void set_batch_timestamp(uint8_t* batch, bool log_append_time, int64_t max_timestamp);

// Timestamps that records may have, both ends included, ms. -1, no timestamp, always may.
struct TimestampBounds {
  int64_t oldest = INT64_MIN;
  int64_t newest = INT64_MAX;
};

// What a walk over records found.
struct RecordsFacts {
  int64_t max_timestamp = -1;
  int32_t max_timestamp_index = -1;  // the first record that has it
  int32_t null_key_index = -1;       // the first record without a key
  int32_t invalid_index = -1;        // the first record that is refused, when one is to blame
  int64_t invalid_timestamp = -1;    // of the first record outside the bounds
};

// Walks over `count` records that fill [records, records + length), uncompressed, and checks every length, that
// offset deltas are 0, 1, 2 ... (stricter than Kafka), and the timestamps against the bounds. kBatchInvalid, or when
// all is well but a timestamp, kTimestampInvalid.
Status walk_records(const uint8_t* records, size_t length, int32_t count, int64_t base_timestamp,
                    const TimestampBounds& bounds, RecordsFacts* facts);

// What a producer may send: exactly one whole v2 batch at the start of [bytes, bytes + length); an incomplete one
// behind it is left alone, as in Kafka. Checks in Kafka's order: frame, one batch, base offset 0, size, checksum,
// counts, sequence, attributes; then the records, unless compressed (*walked says). A control batch passes: who may
// send one is not decided here.
//
// kBatchCorrupt (CORRUPT_MESSAGE), kBatchInvalid (INVALID_RECORD), kBatchTooLarge, kTimestampInvalid.
// *header is read as soon as a whole v2 header is there, also when a later check fails: *has_header.
Status inspect_produced_batch(const uint8_t* bytes, size_t length, int64_t max_message_bytes,
                              const TimestampBounds& bounds, BatchHeader* header, bool* has_header,
                              RecordsFacts* facts, bool* walked);

}  // namespace broadsheet
