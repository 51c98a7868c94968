#include "src/kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <numeric>

#include "src/base/rng.h"

namespace baton::kv {
namespace {

PrefixCacheOptions Options(uint32_t blocks, uint32_t block_tokens = 4) {
  PrefixCacheOptions options;
  options.blocks = blocks;
  options.block_tokens = block_tokens;
  options.model = "m";
  return options;
}

std::vector<int32_t> Tokens(size_t count, int32_t first = 0) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Computes and indexes `tokens`, then lets go of them.
std::vector<BlockId> Fill(PrefixCache* cache, const std::vector<int32_t>& tokens,
                          std::string_view salt = "") {
  PrefixMatch match = cache->Lookup(tokens, salt);
  const size_t blocks = (tokens.size() + cache->block_tokens() - 1) / cache->block_tokens();
  EXPECT_TRUE(cache->Allocate(static_cast<uint32_t>(blocks - match.blocks.size()), &match.blocks));
  cache->Index(tokens, match.blocks, &match.cursor);
  cache->Release(match.blocks);
  return match.blocks;
}

size_t Hits(PrefixCache* cache, const std::vector<int32_t>& prompt, std::string_view salt = "") {
  const PrefixMatch match = cache->Lookup(prompt, salt);
  cache->Release(match.blocks);
  return match.blocks.size();
}

TEST(PrefixCache, ALaterPromptFindsTheBlocksOfAnEarlierOne) {
  PrefixCache cache(Options(8));
  const auto blocks = Fill(&cache, Tokens(10));
  EXPECT_EQ(cache.indexed_blocks(), 2u);  // the third is not full
  const PrefixMatch match = cache.Lookup(Tokens(12), "");
  ASSERT_EQ(match.blocks.size(), 2u);
  EXPECT_EQ(match.blocks[0], blocks[0]);
  EXPECT_EQ(match.blocks[1], blocks[1]);
  EXPECT_EQ(cache.counts().used, 2u);  // pinned
  cache.Release(match.blocks);
  EXPECT_EQ(cache.counts().cached, 2u);
}

TEST(PrefixCache, TheLastPromptTokenIsAlwaysComputed) {
  PrefixCache cache(Options(8));
  Fill(&cache, Tokens(8));
  EXPECT_EQ(Hits(&cache, Tokens(8)), 1u);
  EXPECT_EQ(Hits(&cache, Tokens(9)), 2u);
  EXPECT_EQ(Hits(&cache, Tokens(4)), 0u);
  EXPECT_EQ(Hits(&cache, {}), 0u);
}

TEST(PrefixCache, SaltsAndModelsAreKeptApart) {
  PrefixCache cache(Options(8));
  Fill(&cache, Tokens(8), "a");
  EXPECT_EQ(Hits(&cache, Tokens(9), "a"), 2u);
  EXPECT_EQ(Hits(&cache, Tokens(9), "b"), 0u);
  EXPECT_EQ(Hits(&cache, Tokens(9), ""), 0u);
  EXPECT_FALSE(RootHash("a", "b") == RootHash("ab", ""));
  EXPECT_FALSE(RootHash("1:a", "b") == RootHash("1", "ab"));
}

TEST(PrefixCache, EqualTokensBehindAnotherBeginningAreNoHit) {
  PrefixCache cache(Options(8));
  Fill(&cache, Tokens(8));
  std::vector<int32_t> other = Tokens(9);
  other[0] = 99;
  EXPECT_EQ(Hits(&cache, other), 0u);
}

TEST(PrefixCache, AChainIsEvictedFromItsTail) {
  PrefixCache cache(Options(4));
  Fill(&cache, Tokens(16));
  std::vector<BlockId> taken;
  for (size_t left = 4; left > 0; --left) {
    EXPECT_EQ(Hits(&cache, Tokens(17)), left);
    // Looking at a chain must not change which block goes first.
    ASSERT_TRUE(cache.Allocate(1, &taken));
  }
  EXPECT_EQ(Hits(&cache, Tokens(17)), 0u);
  EXPECT_EQ(cache.counters().evicted_blocks, 4u);
  cache.Release(taken);
}

TEST(PrefixCache, APinnedBlockIsNotEvicted) {
  PrefixCache cache(Options(4));
  Fill(&cache, Tokens(8));
  const PrefixMatch match = cache.Lookup(Tokens(9), "");
  std::vector<BlockId> taken;
  EXPECT_FALSE(cache.Allocate(3, &taken));  // all or nothing
  EXPECT_TRUE(taken.empty());
  EXPECT_TRUE(cache.Allocate(2, &taken));
  EXPECT_EQ(Hits(&cache, Tokens(9)), 2u);
  cache.Release(taken);
  cache.Release(match.blocks);
}

TEST(PrefixCache, ABlockIsPrivateUntilItIsIndexed) {
  PrefixCache cache(Options(4));
  PrefixMatch first = cache.Lookup(Tokens(9), "");
  ASSERT_TRUE(cache.Allocate(3, &first.blocks));
  EXPECT_EQ(Hits(&cache, Tokens(9)), 0u);
  cache.Index(Tokens(4), first.blocks, &first.cursor);
  EXPECT_EQ(Hits(&cache, Tokens(9)), 1u);
  cache.Index(Tokens(9), first.blocks, &first.cursor);
  EXPECT_EQ(Hits(&cache, Tokens(9)), 2u);
  cache.Release(first.blocks);
  EXPECT_EQ(cache.counts(), (PoolCounts{2, 2, 0, 4}));
}

TEST(PrefixCache, ASecondComputationOfTheSameBlockStaysPrivate) {
  PrefixCache cache(Options(4));
  PrefixMatch a = cache.Lookup(Tokens(5), "");
  PrefixMatch b = cache.Lookup(Tokens(5), "");
  ASSERT_TRUE(cache.Allocate(2, &a.blocks));
  ASSERT_TRUE(cache.Allocate(2, &b.blocks));
  cache.Index(Tokens(5), a.blocks, &a.cursor);
  cache.Index(Tokens(5), b.blocks, &b.cursor);
  EXPECT_EQ(cache.indexed_blocks(), 1u);
  cache.Release(b.blocks);
  cache.Release(a.blocks);
  EXPECT_EQ(cache.counts(), (PoolCounts{3, 1, 0, 4}));
}

TEST(PrefixCache, DisabledNeverHits) {
  PrefixCacheOptions options = Options(4);
  options.enabled = false;
  PrefixCache cache(options);
  Fill(&cache, Tokens(9));
  EXPECT_EQ(Hits(&cache, Tokens(9)), 0u);
  EXPECT_EQ(cache.counts().free, 4u);
}

TEST(PrefixCache, CountersCountWhatWasLetIn) {
  PrefixCache cache(Options(8));
  cache.CountLookup(1, 13);  // three full blocks before the last token
  cache.CountLookup(0, 0);
  EXPECT_EQ(cache.counters().hit_blocks, 1u);
  EXPECT_EQ(cache.counters().missed_blocks, 2u);
}

TEST(PrefixCache, EventsAreNumberedAndALossShowsAsAGap) {
  PrefixCacheOptions options = Options(2);
  options.events_max = 3;
  PrefixCache cache(options);
  Fill(&cache, Tokens(8));
  auto events = cache.TakeEvents();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].number, 1u);
  EXPECT_EQ(events[1].parent, events[0].hash);
  Fill(&cache, Tokens(8, 100));  // two removed, two stored
  events = cache.TakeEvents();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].number, 4u);
  EXPECT_EQ(events[0].kind, KvEvent::Kind::kRemoved);
  EXPECT_EQ(cache.counters().events_dropped, 1u);
}

// Every hit must be the block that was last filled with exactly these tokens behind exactly this
// beginning: `contents` remembers the whole chain that each block was filled with.
TEST(PrefixCache, HitsHoldWhatWasAskedForOverRandomTraffic) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Rng rng(seed);
    const auto total = static_cast<uint32_t>(4 + rng.Below(28));
    PrefixCache cache(Options(total, 2));
    std::vector<std::vector<int32_t>> contents(total);
    struct Held {
      std::vector<int32_t> tokens;
      PrefixMatch match;
    };
    std::vector<Held> held;
    for (int i = 0; i < 400; ++i) {
      if (rng.Chance(0.6)) {
        Held one;
        // Two token values, so that beginnings repeat all the time.
        for (uint64_t n = 1 + rng.Below(12); n > 0; --n) {
          one.tokens.push_back(static_cast<int32_t>(rng.Below(2)));
        }
        one.match = cache.Lookup(one.tokens, "");
        const auto chain = [&](size_t block) {
          const auto end = one.tokens.begin() + static_cast<std::ptrdiff_t>(2 * (block + 1));
          return std::vector<int32_t>(one.tokens.begin(), std::min(end, one.tokens.end()));
        };
        for (size_t b = 0; b < one.match.blocks.size(); ++b) {
          ASSERT_EQ(contents[one.match.blocks[b].value], chain(b)) << "seed " << seed;
        }
        const size_t hits = one.match.blocks.size();
        const size_t need = (one.tokens.size() + 1) / 2 - hits;
        if (!cache.Allocate(static_cast<uint32_t>(need), &one.match.blocks)) {
          cache.Release(one.match.blocks);
          continue;
        }
        for (size_t b = hits; b < one.match.blocks.size(); ++b) {
          contents[one.match.blocks[b].value] = chain(b);
        }
        held.push_back(std::move(one));
      } else if (!held.empty()) {
        const size_t at = rng.Below(held.size());
        Held& one = held[at];
        if (rng.Chance(0.8)) cache.Index(one.tokens, one.match.blocks, &one.match.cursor);
        cache.Release(one.match.blocks);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    for (const Held& one : held) cache.Release(one.match.blocks);
    EXPECT_EQ(cache.counts().used, 0u);
    EXPECT_EQ(cache.counts().cached, cache.indexed_blocks());
  }
}

}  // namespace
}  // namespace baton::kv
