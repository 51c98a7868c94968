#include "src/transfer/local_rank.h"

#include "src/transfer/layout.h"
#include "src/transfer/protocol.h"

namespace baton::transfer {
namespace {

Status Differ(const std::string& what, uint64_t shape, uint64_t layout) {
  return InvalidArgumentError("KV pool of this rank has " + what + " " + std::to_string(shape) +
                              ", its layout says " + std::to_string(layout));
}

}  // namespace

Status CheckLocalRank(const LocalRank& local) {
  BATON_RETURN_IF_ERROR(CheckLayout(local.layout));
  for (const std::string* text :
       {&local.layout.weights_hash, &local.layout.rope, &local.layout.kv_dtype}) {
    if (text->size() > kLayoutTextBytesMax) {
      return InvalidArgumentError("a text of the layout has " + std::to_string(text->size()) +
                                  " bytes, at most " + std::to_string(kLayoutTextBytesMax));
    }
  }
  if (local.instance.empty() || local.instance.size() > kNameBytesMax) {
    return InvalidArgumentError("instance name of " + std::to_string(local.instance.size()) +
                                " bytes, must be 1.." + std::to_string(kNameBytesMax));
  }
  if (local.rank >= RankCount(local.layout)) {
    return InvalidArgumentError("rank " + std::to_string(local.rank) + " of " +
                                std::to_string(RankCount(local.layout)));
  }
  const backend::KvShape& have = local.shape;
  const backend::KvShape want = ShapeOf(local.layout, local.rank, have.blocks);
  if (have.layers != want.layers) return Differ("layers", have.layers, want.layers);
  if (have.kv_heads != want.kv_heads) return Differ("KV heads", have.kv_heads, want.kv_heads);
  if (have.head_dim != want.head_dim) return Differ("head_dim", have.head_dim, want.head_dim);
  if (have.block_tokens != want.block_tokens) {
    return Differ("block_tokens", have.block_tokens, want.block_tokens);
  }
  if (have.dtype != want.dtype) {
    return InvalidArgumentError("KV pool of this rank is " + backend::DTypeName(have.dtype) +
                                ", its layout says " + local.layout.kv_dtype);
  }
  if (local.pool.space != backend::Space::kHost) {
    return InvalidArgumentError("the KV pool is device memory, this transport needs host memory");
  }
  if (local.pool.data == nullptr || local.pool.bytes < have.pool_bytes()) {
    return Differ("bytes", local.pool.bytes, have.pool_bytes());
  }
  return OkStatus();
}

}  // namespace baton::transfer
