// For the tests of this room: layouts by numbers, and pools filled with bytes that say which
// request, block, layer and head they belong to. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/ids.h"
#include "src/wire/messages.h"

namespace baton::transfer::testing {

// Layers as even as they go, the remainder on the first stages; bf16, 2 tokens of 3 dimensions.
wire::Layout MakeLayout(uint32_t tp, uint32_t pp, uint32_t layers, uint32_t kv_heads);

std::vector<BlockId> Blocks(uint32_t first, uint32_t count);

// Writes the KV that `rank` holds of the sequence `seed` into its blocks.
void FillBlocks(const wire::Layout& layout, uint32_t rank, const std::vector<BlockId>& blocks,
                uint64_t seed, std::span<std::byte> pool);
// Empty when blocks [skip, end) hold exactly that; otherwise the first difference.
std::string CompareBlocks(const wire::Layout& layout, uint32_t rank,
                          const std::vector<BlockId>& blocks, uint32_t skip, uint64_t seed,
                          std::span<const std::byte> pool);

}  // namespace baton::transfer::testing
