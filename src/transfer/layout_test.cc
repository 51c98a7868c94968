#include "src/transfer/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "src/transfer/runs.h"
#include "src/transfer/testing.h"
#include "src/transfer/transfer.h"

namespace baton::transfer {
namespace {

using testing::Blocks;
using testing::CompareBlocks;
using testing::FillBlocks;
using testing::MakeLayout;

// Calls fn(owner, receiver) for all TP and PP of 1..4 on both sides and odd shapes.
template <typename Fn>
void ForAllPairs(const Fn& fn) {
  for (const uint32_t layers : {4u, 5u, 7u}) {
    for (const uint32_t kv_heads : {1u, 2u, 3u, 5u, 8u}) {
      for (uint32_t a = 0; a < 16; ++a) {
        for (uint32_t b = 0; b < 16; ++b) {
          fn(MakeLayout(a % 4 + 1, a / 4 + 1, layers, kv_heads),
             MakeLayout(b % 4 + 1, b / 4 + 1, layers, kv_heads));
        }
      }
    }
  }
}

bool Holds(const wire::Layout& layout, uint32_t rank, uint32_t layer, uint32_t head) {
  return LayersOfStage(layout, StageOf(layout, rank)).contains(layer) &&
         KvHeadsOfColumn(layout, ColumnOf(layout, rank)).contains(head);
}

TEST(Layout, EveryHeadAndLayerHasAnOwner) {
  ForAllPairs([](const wire::Layout& layout, const wire::Layout& other) {
    if (RankCount(other) > 1) return;  // each layout once
    for (uint32_t layer = 0; layer < layout.layers; ++layer) {
      for (uint32_t head = 0; head < layout.kv_heads; ++head) {
        uint32_t holders = 0;
        for (uint32_t r = 0; r < RankCount(layout); ++r) holders += Holds(layout, r, layer, head);
        ASSERT_GE(holders, 1u);
        if (layout.kv_heads >= layout.tp) {
          ASSERT_EQ(holders, 1u);
        }
      }
    }
  });
}

TEST(Layout, EveryLayerAndHeadOfTheReceiverIsReadOnceFromOneThatHoldsIt) {
  ForAllPairs([](const wire::Layout& owner, const wire::Layout& receiver) {
    for (uint32_t r = 0; r < RankCount(receiver); ++r) {
      std::map<std::pair<uint32_t, uint32_t>, uint32_t> seen;
      bool held = true;
      for (const Leg& leg : PlanLegs(owner, receiver, r)) {
        for (const Slice& slice : leg.slices) {
          for (uint32_t l = slice.layers.begin; l < slice.layers.end; ++l) {
            for (uint32_t h = slice.heads.begin; h < slice.heads.end; ++h) {
              held = held && Holds(owner, leg.owner_rank, l, h) && Holds(receiver, r, l, h);
              ++seen[{l, h}];
            }
          }
        }
      }
      const size_t needed = LayersOfStage(receiver, StageOf(receiver, r)).size() *
                            KvHeadsOfColumn(receiver, ColumnOf(receiver, r)).size();
      ASSERT_TRUE(held);
      ASSERT_EQ(seen.size(), needed);
      ASSERT_TRUE(std::all_of(seen.begin(), seen.end(), [](auto& e) { return e.second == 1; }));
    }
  });
}

TEST(Layout, EveryOwnerRankIsAskedSoThatItsLeaseEnds) {
  ForAllPairs([](const wire::Layout& owner, const wire::Layout& receiver) {
    std::map<uint32_t, std::vector<uint32_t>> readers;
    for (uint32_t r = 0; r < RankCount(receiver); ++r) {
      for (const Leg& leg : PlanLegs(owner, receiver, r)) readers[leg.owner_rank].push_back(r);
    }
    for (uint32_t o = 0; o < RankCount(owner); ++o) {
      ASSERT_FALSE(readers[o].empty());
      ASSERT_EQ(readers[o], ReadersOf(owner, receiver, o));
    }
  });
}

TEST(Layout, ReceiversSpreadOverReplicas) {
  // One KV head on four columns, four columns that want it: each reads from its own.
  const wire::Layout layout = MakeLayout(4, 1, 4, 1);
  std::set<uint32_t> used;
  for (uint32_t r = 0; r < 4; ++r) {
    for (const Leg& leg : PlanLegs(layout, layout, r)) {
      if (!leg.slices.empty()) used.insert(leg.owner_rank);
    }
  }
  EXPECT_EQ(used.size(), 4u);
}

TEST(Layout, BytesArriveExactlyForAllPairs) {
  constexpr uint32_t kCount = 3;
  ForAllPairs([](const wire::Layout& owner, const wire::Layout& receiver) {
    // The odd shapes cover the rest; sanitizers make this one slow.
    if (owner.layers == 4 || owner.kv_heads == 8) return;
    const auto from = Blocks(1, kCount);
    const std::vector<BlockId> to = {BlockId(4), BlockId(0), BlockId(2)};
    std::vector<std::vector<std::byte>> pools;
    for (uint32_t o = 0; o < RankCount(owner); ++o) {
      pools.emplace_back(ShapeOf(owner, o, 5).pool_bytes());
      FillBlocks(owner, o, from, 42, pools.back());
    }
    for (uint32_t r = 0; r < RankCount(receiver); ++r) {
      std::vector<std::byte> pool(ShapeOf(receiver, r, 5).pool_bytes());
      for (const Leg& leg : PlanLegs(owner, receiver, r)) {
        const LegStream stream(owner, receiver, r, leg, kCount, 1, {1, 2, 3}, {4, 0, 2});
        // In odd pieces, as transports do.
        for (uint64_t at = 0; at < stream.total_bytes();) {
          const uint64_t piece = std::min<uint64_t>(37, stream.total_bytes() - at);
          stream.ForEach(at, piece, [&](uint64_t source, uint64_t target, uint64_t bytes) {
            std::memcpy(&pool[target], &pools[leg.owner_rank][source], bytes);
          });
          at += piece;
        }
      }
      ASSERT_EQ(CompareBlocks(receiver, r, to, 1, 42, pool), "");
      // The skipped block and those of nobody stay as they were.
      const size_t block = ShapeOf(receiver, r, 1).block_bytes();
      for (const size_t untouched : {1u, 3u, 4u}) {
        const auto begin = pool.begin() + static_cast<std::ptrdiff_t>(untouched * block);
        ASSERT_EQ(std::count(begin, begin + static_cast<std::ptrdiff_t>(block), std::byte{0}),
                  static_cast<std::ptrdiff_t>(block));
      }
    }
  });
}

TEST(Layout, EqualLayoutsCopyABlockInOnePiece) {
  const wire::Layout layout = MakeLayout(2, 2, 7, 5);
  for (uint32_t r = 0; r < 4; ++r) {
    const std::vector<Leg> legs = PlanLegs(layout, layout, r);
    ASSERT_EQ(legs.size(), 1u);
    EXPECT_EQ(LegStream(layout, layout, r, legs[0], 1, 0, {0}, {0}).runs().size(), 1u);
  }
}

TEST(Layout, PairingRefusesNamingTheFieldAndBothValues) {
  const wire::Layout good = MakeLayout(2, 2, 7, 5);
  EXPECT_TRUE(CheckPairing(good, MakeLayout(3, 1, 7, 5)).ok());
  const auto expect = [&](auto change, const std::string& field, const std::string& a,
                          const std::string& b) {
    wire::Layout other = good;
    change(&other);
    const Status status = CheckPairing(good, other);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    for (const std::string& part : {field, a, b}) {
      EXPECT_NE(status.message().find(part), std::string::npos) << status.ToString();
    }
  };
  expect([](auto* l) { l->weights_hash = "ff"; }, "weights_hash", "0123456789abcdef", "ff");
  expect([](auto* l) { l->kv_dtype = "f32"; }, "kv_dtype", "bf16", "f32");
  expect([](auto* l) { l->block_tokens = 32; }, "block_tokens", "2", "32");
  expect([](auto* l) { l->rope = "base=500000"; }, "rope", "base=10000", "base=500000");
  expect([](auto* l) { l->kv_heads = 4; }, "kv_heads", "5", "4");
  expect([](auto* l) { l->heads = 20; }, "heads", "10", "20");
  expect([](auto* l) { l->head_dim = 4; }, "head_dim", "3", "4");
  expect([](auto* l) { l->layers = 8, l->layers_per_stage = {4, 4}; }, "layers", "7", "8");
  expect([](auto* l) { l->layers_per_stage = {4, 4}; }, "layers_per_stage", "8", "7");
  expect([](auto* l) { l->pp = 1; }, "layers_per_stage", "2", "1");
  expect([](auto* l) { l->tp = 0; }, "tp", "0", "1");
  expect([](auto* l) { l->kv_dtype = "int4"; }, "kv_dtype", "int4", "bf16");
}

}  // namespace
}  // namespace baton::transfer
