// Fields of records as they are encoded: zigzag varints, and bytes behind their length.
#pragma once

#include <cstddef>
#include <cstdint>

namespace broadsheet {

// Reads on from a place; remembers that something was not there.
class RecordReader {
 public:
  RecordReader(const uint8_t* at, const uint8_t* end) : at_(at), end_(end) {}

  const uint8_t* at() const { return at_; }
  size_t remaining() const { return static_cast<size_t>(end_ - at_); }
  bool failed() const { return failed_; }

  void byte() {
    if (at_ == end_) {
      failed_ = true;
    } else {
      ++at_;
    }
  }

  // Zigzag; at most 5 bytes for 32 bits, 10 for 64. Bits past the type's are dropped, as in Kafka.
  int32_t varint() { return static_cast<int32_t>(unzigzag(unsigned_varint(5) & 0xffffffffu)); }
  int64_t varlong() { return unzigzag(unsigned_varint(10)); }

  // Skips a field of a length that was read; false when it does not fit.
  bool skip(int32_t length) {
    if (length < 0 || static_cast<size_t>(length) > remaining()) return false;
    at_ += length;
    return true;
  }

 private:
  static int64_t unzigzag(uint64_t value) { return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1); }

  uint64_t unsigned_varint(int max_bytes) {
    uint64_t value = 0;
    for (int index = 0; index < max_bytes && at_ != end_; ++index) {
      const uint8_t byte = *at_++;
      value |= static_cast<uint64_t>(byte & 0x7f) << (7 * index);
      if ((byte & 0x80) == 0) return value;
    }
    failed_ = true;
    return 0;
  }

  const uint8_t* at_;
  const uint8_t* end_;
  bool failed_ = false;
};

}  // namespace broadsheet
