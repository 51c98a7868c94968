#include "src/kv/block_pool.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>

#include "src/base/rng.h"

namespace baton::kv {
namespace {

// What the pool should do, in the plainest words.
struct Model {
  std::set<uint32_t> free;
  std::deque<uint32_t> cached;  // oldest release first
  std::map<uint32_t, uint32_t> refs;
  std::set<uint32_t> indexed;

  PoolCounts Counts(uint32_t total) const {
    return {static_cast<uint32_t>(free.size()), static_cast<uint32_t>(cached.size()),
            static_cast<uint32_t>(refs.size()), total};
  }
};

uint32_t Pick(const std::map<uint32_t, uint32_t>& refs, Rng* rng) {
  auto it = refs.begin();
  std::advance(it, static_cast<std::ptrdiff_t>(rng->Below(refs.size())));
  return it->first;
}

void TakeOne(BlockPool* pool, Model* model) {
  const auto taken = pool->Take();
  if (model->free.empty() && model->cached.empty()) {
    EXPECT_FALSE(taken.has_value());
    return;
  }
  ASSERT_TRUE(taken.has_value());
  const uint32_t id = taken->block.value;
  if (model->free.empty()) {
    EXPECT_TRUE(taken->evicted);
    EXPECT_EQ(id, model->cached.front());
    model->cached.pop_front();
    model->indexed.erase(id);
  } else {
    EXPECT_FALSE(taken->evicted);
    EXPECT_EQ(model->free.erase(id), 1u);
  }
  model->refs[id] = 1;
}

void UnrefOne(BlockPool* pool, Model* model, uint32_t id) {
  pool->Unref(BlockId(id));
  if (--model->refs[id] > 0) return;
  model->refs.erase(id);
  if (model->indexed.contains(id)) {
    model->cached.push_back(id);
  } else {
    model->free.insert(id);
  }
}

TEST(BlockPool, AgreesWithAPlainModelOverRandomOperations) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    const auto total = static_cast<uint32_t>(1 + rng.Below(20));
    BlockPool pool(total);
    Model model;
    for (uint32_t id = 0; id < total; ++id) model.free.insert(id);
    for (int i = 0; i < 500; ++i) {
      const uint64_t what = rng.Below(6);
      if (what <= 1) {
        TakeOne(&pool, &model);
      } else if (what == 2 && !model.refs.empty()) {
        const uint32_t id = Pick(model.refs, &rng);
        pool.Ref(BlockId(id));
        ++model.refs[id];
      } else if (what == 3 && !model.cached.empty()) {
        const size_t at = rng.Below(model.cached.size());
        const uint32_t id = model.cached[at];
        if (rng.Chance(0.5)) {
          pool.Ref(BlockId(id));
          model.refs[id] = 1;
        } else {
          pool.SetIndexed(BlockId(id), false);
          model.indexed.erase(id);
          model.free.insert(id);
        }
        model.cached.erase(model.cached.begin() + static_cast<std::ptrdiff_t>(at));
      } else if (what == 4 && !model.refs.empty()) {
        UnrefOne(&pool, &model, Pick(model.refs, &rng));
      } else if (what == 5 && !model.refs.empty()) {
        const uint32_t id = Pick(model.refs, &rng);
        pool.SetIndexed(BlockId(id), true);
        model.indexed.insert(id);
      }
      ASSERT_EQ(pool.counts(), model.Counts(total)) << "seed " << seed << " operation " << i;
    }
  }
}

TEST(BlockPool, CachedBlocksGoOutInTheOrderOfTheirRelease) {
  BlockPool pool(3);
  for (int i = 0; i < 3; ++i) pool.SetIndexed(pool.Take()->block, true);
  pool.Unref(BlockId(1));
  pool.Unref(BlockId(2));
  pool.Unref(BlockId(0));
  pool.Ref(BlockId(1));  // used again: its place in the order is new
  pool.Unref(BlockId(1));
  EXPECT_LT(pool.released_at(BlockId(0)), pool.released_at(BlockId(1)));
  EXPECT_EQ(pool.Take()->block, BlockId(2));
  EXPECT_EQ(pool.Take()->block, BlockId(0));
  EXPECT_EQ(pool.Take()->block, BlockId(1));
  EXPECT_FALSE(pool.Take().has_value());
}

TEST(BlockPoolDeathTest, ASecondReleaseIsABug) {
  BlockPool pool(1);
  const BlockId block = pool.Take()->block;
  pool.Unref(block);
  EXPECT_DEATH(pool.Unref(block), "released twice");
  EXPECT_DEATH(pool.Ref(block), "free block");
  EXPECT_DEATH(pool.Unref(BlockId(1)), "outside the pool");
}

}  // namespace
}  // namespace baton::kv
