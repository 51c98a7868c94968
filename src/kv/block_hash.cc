#include "src/kv/block_hash.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace baton::kv {
namespace {

BlockHash FromXxh(XXH128_hash_t hash) { return {hash.low64, hash.high64}; }

constexpr size_t kInlineTokens = 64;  // blocks of up to 64 tokens are hashed without allocation

}  // namespace

std::string BlockHash::Bytes() const {
  std::string bytes(16, '\0');
  std::memcpy(bytes.data(), &low, 8);
  std::memcpy(bytes.data() + 8, &high, 8);
  return bytes;
}

BlockHash RootHash(std::string_view model, std::string_view salt) {
  // The length keeps ("ab", "c") and ("a", "bc") apart.
  std::string text = std::to_string(model.size());
  text.append(":").append(model).append(salt);
  return FromXxh(XXH3_128bits(text.data(), text.size()));
}

BlockHash ChainHash(const BlockHash& parent, std::span<const int32_t> tokens) {
  if (tokens.size() > kInlineTokens) {
    std::string text = parent.Bytes();
    text.append(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
    return FromXxh(XXH3_128bits(text.data(), text.size()));
  }
  char buffer[16 + kInlineTokens * sizeof(int32_t)];
  std::memcpy(buffer, &parent.low, 8);
  std::memcpy(buffer + 8, &parent.high, 8);
  std::memcpy(buffer + 16, tokens.data(), tokens.size_bytes());
  return FromXxh(XXH3_128bits(buffer, 16 + tokens.size_bytes()));
}

std::vector<BlockHash> HashBlocks(const BlockHash& root, std::span<const int32_t> tokens,
                                  uint32_t block_tokens) {
  std::vector<BlockHash> hashes;
  BlockHash parent = root;
  for (size_t at = 0; at + block_tokens <= tokens.size(); at += block_tokens) {
    parent = ChainHash(parent, tokens.subspan(at, block_tokens));
    hashes.push_back(parent);
  }
  return hashes;
}

}  // namespace baton::kv
