#include "src/kv/block_pool.h"

#include "src/base/check.h"

namespace baton::kv {

BlockPool::BlockPool(uint32_t blocks) : blocks_(blocks) {
  free_.reserve(blocks);
  for (uint32_t id = blocks; id > 0; --id) free_.push_back(id - 1);  // block 0 goes out first
  counts_ = {.free = blocks, .cached = 0, .used = 0, .total = blocks};
}

std::optional<BlockPool::Taken> BlockPool::Take() {
  Taken taken;
  uint32_t id = kNil;
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
    --counts_.free;
  } else if (oldest_ != kNil) {
    id = oldest_;
    Unlink(id);
    blocks_[id].indexed = false;
    taken.evicted = true;
    --counts_.cached;
  } else {
    return std::nullopt;
  }
  Block& block = blocks_[id];
  CHECK(block.refs == 0, "a block that is handed out has no user");
  block.refs = 1;
  ++counts_.used;
  CheckCounts();
  taken.block = BlockId(id);
  return taken;
}

void BlockPool::Ref(BlockId id) {
  Block& block = at(id);
  if (block.refs == 0) {
    CHECK(block.indexed, "a free block cannot be referenced");
    Unlink(id.value);
    --counts_.cached;
    ++counts_.used;
  }
  ++block.refs;
  CheckCounts();
}

void BlockPool::Unref(BlockId id) {
  Block& block = at(id);
  CHECK(block.refs > 0, "a block was released twice");
  if (--block.refs > 0) return;
  block.released_at = ++clock_;
  --counts_.used;
  if (block.indexed) {
    LinkNewest(id.value);
    ++counts_.cached;
  } else {
    free_.push_back(id.value);
    ++counts_.free;
  }
  CheckCounts();
}

void BlockPool::SetIndexed(BlockId id, bool indexed) {
  Block& block = at(id);
  if (block.indexed == indexed) return;
  CHECK(!indexed || block.refs > 0, "only a block in use can enter the index");
  block.indexed = indexed;
  if (!indexed && block.refs == 0) {
    Unlink(id.value);
    free_.push_back(id.value);
    --counts_.cached;
    ++counts_.free;
  }
  CheckCounts();
}

const BlockPool::Block& BlockPool::at(BlockId block) const {
  CHECK(block.value < blocks_.size(), "a block id outside the pool");
  return blocks_[block.value];
}

BlockPool::Block& BlockPool::at(BlockId block) {
  CHECK(block.value < blocks_.size(), "a block id outside the pool");
  return blocks_[block.value];
}

void BlockPool::LinkNewest(uint32_t id) {
  Block& block = blocks_[id];
  block.prev = newest_;
  block.next = kNil;
  (newest_ == kNil ? oldest_ : blocks_[newest_].next) = id;
  newest_ = id;
}

void BlockPool::Unlink(uint32_t id) {
  Block& block = blocks_[id];
  (block.prev == kNil ? oldest_ : blocks_[block.prev].next) = block.next;
  (block.next == kNil ? newest_ : blocks_[block.next].prev) = block.prev;
  block.prev = block.next = kNil;
}

void BlockPool::CheckCounts() const {
  CHECK(counts_.free == free_.size(), "the free list and its counter disagree");
  CHECK(counts_.free + counts_.cached + counts_.used == counts_.total,
        "free + cached + used is not the total");
}

}  // namespace baton::kv
