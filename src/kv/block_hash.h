// Identity of a KV block: a 128-bit XXH3 over (parent's identity, its tokens), the chain starting
// from (model, salt). Location-free, so that instances can compare what they hold.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::kv {

struct BlockHash {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const BlockHash&, const BlockHash&) = default;
  // 16 bytes, for wire::HandoffDescriptor::block_hashes.
  std::string Bytes() const;
};

// `model` says everything that makes KV differ: weights, dtype, rope, block size.
BlockHash RootHash(std::string_view model, std::string_view salt);
BlockHash ChainHash(const BlockHash& parent, std::span<const int32_t> tokens);
// Of every full block of `tokens`, in order.
std::vector<BlockHash> HashBlocks(const BlockHash& root, std::span<const int32_t> tokens,
                                  uint32_t block_tokens);

}  // namespace baton::kv
