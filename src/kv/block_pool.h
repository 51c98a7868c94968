// Bookkeeping of KV blocks: which are free, which are in use and by how many, and which are cached,
// that is unused but still holding bytes that the prefix index can name. Knows ids alone, no bytes.
// Pure; one owner (the leader's engine thread).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/ids.h"

namespace baton::kv {

struct PoolCounts {
  uint32_t free = 0;
  uint32_t cached = 0;
  uint32_t used = 0;
  uint32_t total = 0;
  friend bool operator==(const PoolCounts&, const PoolCounts&) = default;
};

class BlockPool {
 public:
  explicit BlockPool(uint32_t blocks);

  struct Taken {
    BlockId block;
    bool evicted = false;  // it was cached: its index entry must go now
  };
  // A free block, else the cached one that was released longest ago; with one reference. Empty when
  // all are in use.
  std::optional<Taken> Take();
  // One more reference to a cached or used block.
  void Ref(BlockId block);
  // One reference less. The last one leaves the block cached when it is indexed, free otherwise.
  void Unref(BlockId block);
  // Whether the prefix index names the block. A cached block that loses its entry becomes free.
  void SetIndexed(BlockId block, bool indexed);

  // Starts fetching the block's record from memory; `block` must exist.
  void Prefetch(BlockId block) const { __builtin_prefetch(&blocks_[block.value], 1); }

  bool indexed(BlockId block) const { return at(block).indexed; }
  uint32_t refs(BlockId block) const { return at(block).refs; }
  // Logical time of the last release; moves by one with each, on no clock of the machine, so that
  // ranks that replay the same plans agree.
  uint64_t released_at(BlockId block) const { return at(block).released_at; }
  PoolCounts counts() const { return counts_; }

 private:
  static constexpr uint32_t kNil = UINT32_MAX;
  struct Block {
    uint32_t refs = 0;
    uint32_t prev = kNil;  // neighbours in release order while cached
    uint32_t next = kNil;
    uint64_t released_at = 0;
    bool indexed = false;
  };

  const Block& at(BlockId block) const;
  Block& at(BlockId block);
  void LinkNewest(uint32_t id);
  void Unlink(uint32_t id);
  void CheckCounts() const;

  std::vector<Block> blocks_;
  std::vector<uint32_t> free_;  // a stack
  uint32_t oldest_ = kNil;
  uint32_t newest_ = kNil;
  uint64_t clock_ = 0;
  PoolCounts counts_;
};

}  // namespace baton::kv
