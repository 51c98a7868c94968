// The pool together with the index that lets requests share the KV of equal prompt beginnings.
// Pure; one owner (the leader's engine thread). Ranks never see it: they get block ids by plan.
//
// A block is private until Index() names it, which the owner calls only after the commit that every
// rank holds its bytes, and only for positions of accepted tokens. Token ids and the parent's
// identity are compared on a hit, so a hash collision within a chain gives a miss, never foreign
// KV.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/ids.h"
#include "src/kv/block_hash.h"
#include "src/kv/block_pool.h"

namespace baton::kv {

class HashIndex;

struct PrefixCacheOptions {
  uint32_t blocks = 0;
  uint32_t block_tokens = 16;
  std::string model;        // see RootHash
  bool enabled = true;      // false: nothing is ever indexed
  uint32_t events_max = 0;  // 0: no events are kept
};

// How far a sequence's blocks have been through the index: the next block and the hash before it.
struct ChainCursor {
  uint32_t blocks = 0;
  BlockHash hash;
};

struct PrefixMatch {
  std::vector<BlockId> blocks;  // pinned: one reference each, the caller releases them
  ChainCursor cursor;           // behind the match
};

struct CacheCounters {
  uint64_t hit_blocks = 0;
  uint64_t missed_blocks = 0;
  uint64_t evicted_blocks = 0;
  uint64_t events_dropped = 0;
};

// What the index gained or lost. Numbers are consecutive from 1, so a reader sees a gap.
struct KvEvent {
  enum class Kind : uint8_t { kStored, kRemoved };
  uint64_t number = 0;
  Kind kind = Kind::kStored;
  BlockHash hash;
  BlockHash parent;
};

class PrefixCache {
 public:
  explicit PrefixCache(const PrefixCacheOptions& options);
  ~PrefixCache();

  // The longest run of indexed full blocks that `prompt` begins with, pinned. Never covers the last
  // token, which must be computed to draw the next one.
  PrefixMatch Lookup(std::span<const int32_t> prompt, std::string_view salt);
  // Adds a lookup to the counters: once per request that was let in, not per try.
  void CountLookup(size_t hit_blocks, size_t prompt_tokens);

  // Appends `count` blocks with one reference each. False, and nothing taken, when there are not
  // that many free or cached.
  bool Allocate(uint32_t count, std::vector<BlockId>* blocks);
  // Drops one reference each, the last block first, so that a chain is evicted from its tail.
  void Release(std::span<const BlockId> blocks);

  // Names the full blocks of `tokens` (a sequence from its start; its blocks in order) from the
  // cursor on. A block whose identity is known already stays private.
  void Index(std::span<const int32_t> tokens, std::span<const BlockId> blocks, ChainCursor* cursor);
  ChainCursor Begin(std::string_view salt) const { return {0, RootHash(options_.model, salt)}; }

  // The events since the last call. Bounded by events_max: the oldest are lost and counted.
  std::vector<KvEvent> TakeEvents();

  PoolCounts counts() const { return pool_.counts(); }
  CacheCounters counters() const { return counters_; }
  const BlockPool& pool() const { return pool_; }
  size_t indexed_blocks() const;
  uint32_t block_tokens() const { return options_.block_tokens; }

 private:
  bool Holds(uint32_t block, const BlockHash& parent, std::span<const int32_t> tokens) const;
  int32_t* TokensOf(uint32_t block) {
    return &tokens_[static_cast<size_t>(block) * options_.block_tokens];
  }
  const int32_t* TokensOf(uint32_t block) const {
    return &tokens_[static_cast<size_t>(block) * options_.block_tokens];
  }
  void Forget(BlockId block);
  void Emit(KvEvent::Kind kind, uint32_t block);

  struct Identity {
    BlockHash hash;
    BlockHash parent;
  };

  const PrefixCacheOptions options_;
  BlockPool pool_;
  // By block, valid while indexed.
  std::vector<Identity> identities_;
  std::vector<int32_t> tokens_;  // block_tokens each
  std::unique_ptr<HashIndex> index_;
  CacheCounters counters_;
  std::deque<KvEvent> events_;
  uint64_t next_event_ = 1;
};

}  // namespace baton::kv
