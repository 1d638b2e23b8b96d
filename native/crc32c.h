// CRC32C (Castagnoli, RFC 3720 appendix B.4), the checksum of a v2 record batch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace broadsheet {

enum class Crc32cPath {
  kPortable,  // tables, eight bytes a step
  kHardware,  // SSE4.2 on x86-64, the CRC extension on arm64
};

bool crc32c_available(Crc32cPath path);

// By the fastest path that this machine has.
uint32_t crc32c(const void* data, size_t length);

// By one path, which must be available.
uint32_t crc32c_by(Crc32cPath path, const void* data, size_t length);

}  // namespace broadsheet
