// Hash -> block, open addressing with linear probing and backward-shift deletion, sized once for
// twice the pool. The key lies in the slot, so that a probe costs one cache miss, which Prefetch()
// can start early (an unordered_map costs two, one behind the other).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "src/base/check.h"
#include "src/kv/block_hash.h"

namespace baton::kv {

class HashIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit HashIndex(uint32_t blocks)
      : blocks_(blocks), slots_(std::bit_ceil(std::max<size_t>(8, size_t{blocks} * 2))) {}

  void Prefetch(const BlockHash& hash) const { __builtin_prefetch(&slots_[Home(hash)]); }

  uint32_t Find(const BlockHash& hash) const {
    for (size_t at = Home(hash);; at = Next(at)) {
      const Slot& slot = slots_[at];
      if (slot.block == kNone || slot.hash == hash) return slot.block;
    }
  }

  // `hash` must not be present.
  void Insert(const BlockHash& hash, uint32_t block) {
    CHECK(++size_ <= blocks_, "more entries than blocks");
    size_t at = Home(hash);
    while (slots_[at].block != kNone) at = Next(at);
    slots_[at] = {hash, block};
  }

  void Erase(const BlockHash& hash) {
    size_t hole = Home(hash);
    while (!(slots_[hole].hash == hash)) {
      CHECK(slots_[hole].block != kNone, "an indexed block has no entry");
      hole = Next(hole);
    }
    --size_;
    for (size_t at = Next(hole); slots_[at].block != kNone; at = Next(at)) {
      // What sits at or before the hole, seen from its home, may move into it.
      const size_t home = Home(slots_[at].hash);
      if (((at - home) & Mask()) >= ((at - hole) & Mask())) {
        slots_[hole] = slots_[at];
        hole = at;
      }
    }
    slots_[hole] = {};
  }

  size_t size() const { return size_; }

 private:
  struct Slot {
    BlockHash hash;
    uint32_t block = kNone;
  };
  size_t Mask() const { return slots_.size() - 1; }
  size_t Next(size_t at) const { return (at + 1) & Mask(); }
  size_t Home(const BlockHash& hash) const { return hash.low & Mask(); }

  const uint32_t blocks_;
  std::vector<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace baton::kv
