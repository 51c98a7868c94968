#include "src/transfer/testing.h"

#include <functional>

#include "src/transfer/layout.h"

namespace baton::transfer::testing {
namespace {

// Of sequence `seed`: never zero, so that untouched memory differs.
std::byte Expected(uint64_t seed, uint64_t block, uint64_t layer, uint64_t kv, uint64_t head,
                   uint64_t at) {
  uint64_t x = seed;
  for (const uint64_t part : {block, layer, kv, head, at}) {
    x = (x ^ part) * 0x9e3779b97f4a7c15ull;
    x ^= x >> 29;
  }
  return static_cast<std::byte>(x % 255 + 1);
}

using Visit = std::function<bool(size_t offset, std::byte expected)>;

// Each byte of block number `b` of the sequence, until the visitor says false.
bool VisitBlock(const wire::Layout& layout, uint32_t rank, BlockId block, uint32_t b, uint64_t seed,
                const Visit& visit) {
  const backend::KvShape shape = ShapeOf(layout, rank, 1);
  const Range layers = LayersOfStage(layout, StageOf(layout, rank));
  const Range heads = KvHeadsOfColumn(layout, ColumnOf(layout, rank));
  size_t offset = block.value * shape.block_bytes();
  for (uint32_t layer = layers.begin; layer < layers.end; ++layer) {
    for (uint32_t kv = 0; kv < 2; ++kv) {
      for (uint32_t head = heads.begin; head < heads.end; ++head) {
        for (size_t i = 0; i < shape.head_bytes(); ++i, ++offset) {
          if (!visit(offset, Expected(seed, b, layer, kv, head, i))) return false;
        }
      }
    }
  }
  return true;
}

}  // namespace

wire::Layout MakeLayout(uint32_t tp, uint32_t pp, uint32_t layers, uint32_t kv_heads) {
  wire::Layout layout;
  layout.tp = tp;
  layout.pp = pp;
  layout.layers = layers;
  for (uint32_t s = 0; s < pp; ++s) {
    layout.layers_per_stage.push_back(layers / pp + (s < layers % pp ? 1 : 0));
  }
  layout.kv_heads = kv_heads;
  layout.heads = kv_heads * 2;
  layout.head_dim = 3;
  layout.block_tokens = 2;
  layout.kv_dtype = "bf16";
  layout.weights_hash = "0123456789abcdef";
  layout.rope = "base=10000";
  return layout;
}

std::vector<BlockId> Blocks(uint32_t first, uint32_t count) {
  std::vector<BlockId> blocks;
  for (uint32_t i = 0; i < count; ++i) blocks.emplace_back(first + i);
  return blocks;
}

void FillBlocks(const wire::Layout& layout, uint32_t rank, const std::vector<BlockId>& blocks,
                uint64_t seed, std::span<std::byte> pool) {
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    VisitBlock(layout, rank, blocks[b], b, seed, [&](size_t offset, std::byte expected) {
      pool[offset] = expected;
      return true;
    });
  }
}

std::string CompareBlocks(const wire::Layout& layout, uint32_t rank,
                          const std::vector<BlockId>& blocks, uint32_t skip, uint64_t seed,
                          std::span<const std::byte> pool) {
  std::string difference;
  for (uint32_t b = skip; b < blocks.size(); ++b) {
    const bool same =
        VisitBlock(layout, rank, blocks[b], b, seed, [&](size_t offset, std::byte expected) {
          if (pool[offset] == expected) return true;
          difference = "block " + std::to_string(b) + " of rank " + std::to_string(rank) +
                       " differs at pool offset " + std::to_string(offset) + ": expected " +
                       std::to_string(static_cast<int>(expected)) + ", found " +
                       std::to_string(static_cast<int>(pool[offset]));
          return false;
        });
    if (!same) break;
  }
  return difference;
}

}  // namespace baton::transfer::testing
