// The log cleaner's work on the records of a batch: learns the last offset of each key, and copies the records that stay.
// The map's memory is the caller's, laid out as src/log/cleaner-map.ts says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "chaskey.h"
#include "status.h"

namespace broadsheet {

class KeyMap {
 public:
  struct Slot {
    Chaskey::Words digest;
    double next_offset;  // 0: free
  };
  static_assert(sizeof(Slot) == 24);

  // Slots are aligned as a double is; the secret has 16 bytes.
  KeyMap(Slot* slots, size_t count, const uint8_t* secret) : slots_(slots), count_(count), chaskey_(secret) {}

  Chaskey::Words digest(const uint8_t* key, size_t length) const { return chaskey_.digest(key, length); }
  void prefetch(const Chaskey::Words& digest) const { __builtin_prefetch(slots_ + digest.a % count_); }
  // Of the digest, or the free one where it would be; null when there is neither.
  Slot* find(const Chaskey::Words& digest) const;

 private:
  Slot* const slots_;
  const size_t count_;
  const Chaskey chaskey_;
};

// Unpacked records of one batch.
struct BatchRecords {
  const uint8_t* data;
  size_t length;
  int64_t count;
  double base_offset;
};

struct Learned {
  int64_t added = 0;  // keys that the map did not have
  bool all = true;    // false: there was no room for more
};

// Notes offsets from `from` on, of up to `room` new keys. kCorrupt when there are not `count` records.
Status learn_keys(const KeyMap& map, const BatchRecords& records, double from, int64_t room, Learned* learned);

struct Sifted {
  int64_t kept = 0;
  size_t bytes = 0;  // copied; 0 when all stay
  bool tombstones = false;
  double latest_delta = 0;
};

// Copies what stays to `into`, which has room for all, unless all stay. Up to offset up_to, records go that have no key,
// or of whose key the map has a later offset, and with drops_tombstones those without a value.
Status sift_records(const KeyMap& map, const BatchRecords& records, double up_to, bool drops_tombstones, uint8_t* into,
                    Sifted* sifted);

}  // namespace broadsheet
