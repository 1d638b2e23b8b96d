#include "crc32c.h"

#include <array>
#include <cassert>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace broadsheet {

namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // bits reversed: the lowest bit is the highest power

// table[k][b]: what byte b does to the checksum when k more bytes follow it in the same step.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

uint64_t load_little_endian(const uint8_t* data) {
  uint64_t value;
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  std::memcpy(&value, data, sizeof value);
  return value;
}

uint32_t portable(uint32_t crc, const uint8_t* data, size_t length) {
  for (; length >= 8; data += 8, length -= 8) {
    const uint64_t step = load_little_endian(data) ^ crc;
    crc = kTables[7][step & 0xff] ^ kTables[6][(step >> 8) & 0xff] ^ kTables[5][(step >> 16) & 0xff] ^
          kTables[4][(step >> 24) & 0xff] ^ kTables[3][(step >> 32) & 0xff] ^ kTables[2][(step >> 40) & 0xff] ^
          kTables[1][(step >> 48) & 0xff] ^ kTables[0][step >> 56];
  }
  for (; length > 0; ++data, --length) crc = (crc >> 8) ^ kTables[0][(crc ^ *data) & 0xff];
  return crc;
}

#if defined(__x86_64__) || defined(__aarch64__)
#define BROADSHEET_CRC32C_HARDWARE 1

#if defined(__x86_64__)
#define BROADSHEET_CRC32C_TARGET __attribute__((target("sse4.2,crc32")))
BROADSHEET_CRC32C_TARGET inline uint32_t step8(uint32_t crc, uint64_t bytes) {
  return static_cast<uint32_t>(_mm_crc32_u64(crc, bytes));
}
BROADSHEET_CRC32C_TARGET inline uint32_t step1(uint32_t crc, uint8_t byte) { return _mm_crc32_u8(crc, byte); }
// Not __builtin_cpu_supports: what that looks at is empty here where clang compiles without its own runtime library.
bool has_hardware() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_SSE4_2) != 0;
}
#else
#define BROADSHEET_CRC32C_TARGET __attribute__((target("+crc")))
BROADSHEET_CRC32C_TARGET inline uint32_t step8(uint32_t crc, uint64_t bytes) { return __crc32cd(crc, bytes); }
BROADSHEET_CRC32C_TARGET inline uint32_t step1(uint32_t crc, uint8_t byte) { return __crc32cb(crc, byte); }
bool has_hardware() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#endif

// What `length` zero bytes do to a checksum. That is linear over GF(2), so the effect on each of its four bytes,
// looked up and added (xor), is the effect on the whole.
class ZeroShift {
 public:
  BROADSHEET_CRC32C_TARGET explicit ZeroShift(size_t length) {
    uint32_t of_bit[32];
    for (int bit = 0; bit < 32; ++bit) {
      uint32_t crc = uint32_t{1} << bit;
      for (size_t done = 0; done < length; done += 8) crc = step8(crc, 0);
      of_bit[bit] = crc;
    }
    for (int byte = 0; byte < 4; ++byte) {
      for (uint32_t value = 0; value < 256; ++value) {
        uint32_t crc = 0;
        for (int bit = 0; bit < 8; ++bit) {
          if ((value >> bit & 1) != 0) crc ^= of_bit[8 * byte + bit];
        }
        table_[byte][value] = crc;
      }
    }
  }

  uint32_t apply(uint32_t crc) const {
    return table_[0][crc & 0xff] ^ table_[1][crc >> 8 & 0xff] ^ table_[2][crc >> 16 & 0xff] ^ table_[3][crc >> 24];
  }

 private:
  uint32_t table_[4][256];
};

// Three such blocks are read nearly in the order in which they lie, which is what a processor fetches ahead: with blocks of
// 4 KiB memory that is in no cache took twice as long.
constexpr size_t kBlock = 256;

// The instruction takes three cycles but one can begin each cycle: three neighbouring blocks are summed side by side,
// then joined.
BROADSHEET_CRC32C_TARGET inline uint32_t three_blocks(uint32_t crc, const uint8_t* data, const ZeroShift& shift) {
  uint32_t second = 0;
  uint32_t third = 0;
  for (size_t at = 0; at < kBlock; at += 8) {
    crc = step8(crc, load_little_endian(data + at));
    second = step8(second, load_little_endian(data + kBlock + at));
    third = step8(third, load_little_endian(data + 2 * kBlock + at));
  }
  return shift.apply(shift.apply(crc) ^ second) ^ third;
}

BROADSHEET_CRC32C_TARGET uint32_t hardware(uint32_t crc, const uint8_t* data, size_t length) {
  static const ZeroShift shift(kBlock);
  for (; length >= 3 * kBlock; data += 3 * kBlock, length -= 3 * kBlock) crc = three_blocks(crc, data, shift);
  for (; length >= 8; data += 8, length -= 8) crc = step8(crc, load_little_endian(data));
  for (; length > 0; ++data, --length) crc = step1(crc, *data);
  return crc;
}

#else
bool has_hardware() { return false; }
#endif

const bool kHasHardware = has_hardware();

}  // namespace

bool crc32c_available(Crc32cPath path) { return path == Crc32cPath::kPortable || kHasHardware; }

uint32_t crc32c_by(Crc32cPath path, const void* data, size_t length) {
  assert(crc32c_available(path));
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
#if defined(BROADSHEET_CRC32C_HARDWARE)
  if (path == Crc32cPath::kHardware) return ~hardware(~uint32_t{0}, bytes, length);
#endif
  return ~portable(~uint32_t{0}, bytes, length);
}

uint32_t crc32c(const void* data, size_t length) {
  return crc32c_by(kHasHardware ? Crc32cPath::kHardware : Crc32cPath::kPortable, data, length);
}

}  // namespace broadsheet
