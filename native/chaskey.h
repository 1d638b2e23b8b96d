// Chaskey-12 (Mouha et al., SAC 2014; ISO/IEC 29192-6): a keyed digest of 128 bits that costs little for short inputs.
// src/log/chaskey.ts is the same.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace broadsheet {

class Chaskey {
 public:
  static constexpr size_t kBlockBytes = 16;

  // Four little-endian words.
  struct Words {
    uint32_t a, b, c, d;
    bool operator==(const Words&) const = default;
  };

  explicit Chaskey(const uint8_t* secret) {
    std::memcpy(&secret_, secret, kBlockBytes);
    whole_ = doubled(secret_);
    filled_ = doubled(whole_);
  }

  Words digest(const uint8_t* data, size_t length) const {
    Words state = secret_;
    for (; length > kBlockBytes; data += kBlockBytes, length -= kBlockBytes) {
      add(&state, load(data));
      permute(&state);
    }
    if (length == kBlockBytes) {
      add(&state, load(data));
    } else {
      uint8_t block[kBlockBytes] = {};
      if (length > 0) std::memcpy(block, data, length);
      block[length] = 1;
      add(&state, load(block));
    }
    const Words& last = length == kBlockBytes ? whole_ : filled_;
    add(&state, last);
    permute(&state);
    add(&state, last);
    return state;
  }

 private:
  static constexpr int kRounds = 12;

  static Words load(const uint8_t* block) {
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
    Words words;
    std::memcpy(&words, block, kBlockBytes);
    return words;
  }

  static void add(Words* state, const Words& other) {
    state->a ^= other.a;
    state->b ^= other.b;
    state->c ^= other.c;
    state->d ^= other.d;
  }

  // In GF(2^128).
  static Words doubled(const Words& in) {
    return {(in.a << 1) ^ ((in.d >> 31) != 0 ? 0x87u : 0u), (in.b << 1) | (in.a >> 31), (in.c << 1) | (in.b >> 31),
            (in.d << 1) | (in.c >> 31)};
  }

  static void permute(Words* state) {
    Words v = *state;
    for (int round = 0; round < kRounds; ++round) {
      v.a += v.b;
      v.b = std::rotl(v.b, 5) ^ v.a;
      v.a = std::rotl(v.a, 16);
      v.c += v.d;
      v.d = std::rotl(v.d, 8) ^ v.c;
      v.a += v.d;
      v.d = std::rotl(v.d, 13) ^ v.a;
      v.c += v.b;
      v.b = std::rotl(v.b, 7) ^ v.c;
      v.c = std::rotl(v.c, 16);
    }
    *state = v;
  }

  Words secret_;
  Words whole_;   // for an input of whole blocks
  Words filled_;  // for one whose last block is filled up
};

}  // namespace broadsheet
