#include "src/kv/prefix_cache.h"

#include <algorithm>
#include <cstring>

#include "src/base/check.h"
#include "src/kv/hash_index.h"

namespace baton::kv {

PrefixCache::PrefixCache(const PrefixCacheOptions& options)
    : options_(options),
      pool_(options.blocks),
      identities_(options.blocks),
      tokens_(static_cast<size_t>(options.blocks) * options.block_tokens),
      index_(std::make_unique<HashIndex>(options.blocks)) {
  CHECK(options.block_tokens > 0);
}

PrefixCache::~PrefixCache() = default;

size_t PrefixCache::indexed_blocks() const { return index_->size(); }

PrefixMatch PrefixCache::Lookup(std::span<const int32_t> prompt, std::string_view salt) {
  PrefixMatch match;
  match.cursor = Begin(salt);
  if (prompt.empty() || !options_.enabled) return match;
  const size_t block_tokens = options_.block_tokens;
  const size_t full = (prompt.size() - 1) / block_tokens;
  // A few blocks at a time: hashes need no memory of the index, so they are computed ahead while
  // the slots, and then the blocks' records, come from memory.
  constexpr size_t kAhead = 8;
  BlockHash hashes[kAhead];
  uint32_t found[kAhead];
  for (size_t first = 0; first < full; first += kAhead) {
    const size_t count = std::min(kAhead, full - first);
    const auto tokens_of = [&](size_t i) {
      return prompt.subspan((first + i) * block_tokens, block_tokens);
    };
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = ChainHash(i == 0 ? match.cursor.hash : hashes[i - 1], tokens_of(i));
      index_->Prefetch(hashes[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      found[i] = index_->Find(hashes[i]);
      if (found[i] == HashIndex::kNone) break;
      __builtin_prefetch(&identities_[found[i]]);
      __builtin_prefetch(TokensOf(found[i]));
      pool_.Prefetch(BlockId(found[i]));
    }
    for (size_t i = 0; i < count; ++i) {
      if (found[i] == HashIndex::kNone || !Holds(found[i], match.cursor.hash, tokens_of(i))) {
        return match;
      }
      pool_.Ref(BlockId(found[i]));
      match.blocks.push_back(BlockId(found[i]));
      match.cursor = {match.cursor.blocks + 1, hashes[i]};
    }
  }
  return match;
}

void PrefixCache::CountLookup(size_t hit_blocks, size_t prompt_tokens) {
  const size_t full = prompt_tokens == 0 ? 0 : (prompt_tokens - 1) / options_.block_tokens;
  counters_.hit_blocks += hit_blocks;
  counters_.missed_blocks += full - std::min(full, hit_blocks);
}

bool PrefixCache::Allocate(uint32_t count, std::vector<BlockId>* blocks) {
  const PoolCounts counts = pool_.counts();
  if (count > counts.free + counts.cached) return false;
  for (uint32_t i = 0; i < count; ++i) {
    const auto taken = pool_.Take();
    CHECK(taken.has_value(), "free and cached blocks were counted wrong");
    if (taken->evicted) {
      ++counters_.evicted_blocks;
      Forget(taken->block);
    }
    blocks->push_back(taken->block);
  }
  return true;
}

void PrefixCache::Release(std::span<const BlockId> blocks) {
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) pool_.Unref(*it);
}

void PrefixCache::Index(std::span<const int32_t> tokens, std::span<const BlockId> blocks,
                        ChainCursor* cursor) {
  if (!options_.enabled) return;
  const size_t block_tokens = options_.block_tokens;
  const size_t full = std::min(tokens.size() / block_tokens, blocks.size());
  for (size_t i = cursor->blocks; i < full; ++i) {
    const auto run = tokens.subspan(i * block_tokens, block_tokens);
    const BlockHash parent = cursor->hash;
    *cursor = {static_cast<uint32_t>(i + 1), ChainHash(parent, run)};
    const uint32_t block = blocks[i].value;
    if (index_->Find(cursor->hash) != HashIndex::kNone) continue;
    CHECK(!pool_.indexed(blocks[i]), "a block would have two identities");
    identities_[block] = {cursor->hash, parent};
    std::copy(run.begin(), run.end(), TokensOf(block));
    pool_.SetIndexed(blocks[i], true);
    index_->Insert(cursor->hash, block);
    Emit(KvEvent::Kind::kStored, block);
  }
}

bool PrefixCache::Holds(uint32_t block, const BlockHash& parent,
                        std::span<const int32_t> tokens) const {
  return identities_[block].parent == parent &&
         std::memcmp(TokensOf(block), tokens.data(), tokens.size_bytes()) == 0;
}

void PrefixCache::Forget(BlockId block) {
  Emit(KvEvent::Kind::kRemoved, block.value);
  index_->Erase(identities_[block.value].hash);
}

void PrefixCache::Emit(KvEvent::Kind kind, uint32_t block) {
  if (options_.events_max == 0) return;
  if (events_.size() >= options_.events_max) {
    events_.pop_front();
    ++counters_.events_dropped;
  }
  events_.push_back({next_event_++, kind, identities_[block].hash, identities_[block].parent});
}

std::vector<KvEvent> PrefixCache::TakeEvents() {
  std::vector<KvEvent> events(events_.begin(), events_.end());
  events_.clear();
  return events;
}

}  // namespace baton::kv
