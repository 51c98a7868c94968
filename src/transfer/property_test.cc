// Both state machines over a network that loses, repeats, delays and reorders, on a clock that
// stands still: thousands of seeds, random layouts, frozen receivers, aborts and withdrawals. The
// owner overwrites its blocks the moment that a lease is reported ended, so bytes copied after it
// are visibly wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "src/base/rng.h"
#include "src/transfer/layout.h"
#include "src/transfer/owner.h"
#include "src/transfer/receiver.h"
#include "src/transfer/testing.h"

namespace baton::transfer {
namespace {

using std::chrono::milliseconds;

constexpr uint32_t kLeases = 3;
constexpr uint32_t kBlocksEach = 3;
constexpr uint32_t kPoolBlocks = kLeases * kBlocksEach;
constexpr Nanos kOffer = milliseconds(300);
constexpr Nanos kTransfer = milliseconds(150);
constexpr Nanos kTick = milliseconds(3);
// All deadlines below, one after another, and the longest delay of a message.
constexpr Nanos kAllOver = milliseconds(2500);

ReceiverLimits Limits() {
  ReceiverLimits limits;
  limits.retry = milliseconds(4);
  limits.retry_max = milliseconds(30);
  limits.ask_timeout = milliseconds(400);
  limits.progress_timeout = milliseconds(250);
  return limits;
}

struct OwnerRank {
  LocalRank local;
  std::vector<std::byte> pool;
  std::unique_ptr<Owner> machine;
  std::map<uint64_t, int> ended;
  std::map<uint64_t, MonoTime> offer_at;
};

struct FetchTrack {
  uint64_t lease = 0;
  std::set<uint32_t> legs;
  std::set<uint32_t> valid;  // owner ranks whose `valid` was delivered
  int ended = 0;
};

struct ReceiverRank {
  LocalRank local;
  uint32_t group = 0;
  std::vector<std::byte> pool;
  std::unique_ptr<Receiver> machine;
  MonoTime frozen_until;
  std::map<uint64_t, MonoTime> start_at;  // by lease
  std::map<uint64_t, FetchTrack> fetches;
};

struct InFlight {
  MonoTime at;
  bool to_owner = false;
  uint32_t owner = 0;
  uint32_t receiver = 0;  // index into receivers_
  std::string bytes;
};

class World {
 public:
  explicit World(uint64_t seed) : rng_(seed) {
    const uint32_t layers = 3 + static_cast<uint32_t>(rng_.Below(4));
    const uint32_t heads = 1 + static_cast<uint32_t>(rng_.Below(5));
    const auto cut = [&] {
      return testing::MakeLayout(1 + static_cast<uint32_t>(rng_.Below(3)),
                                 1 + static_cast<uint32_t>(rng_.Below(3)), layers, heads);
    };
    loss_ = rng_.Chance(0.3) ? 0 : rng_.Uniform() * 0.3;
    repeat_ = rng_.Uniform() * 0.3;
    delay_ms_ = 1 + rng_.Below(rng_.Chance(0.2) ? 200 : 20);
    MakeOwners(cut());
    MakeReceivers(cut(), 0);
    if (rng_.Chance(0.3)) MakeReceivers(cut(), 1);  // a second instance with the same descriptors
  }

  void Run() {
    for (const MonoTime end = now_ + kAllOver; now_ < end; now_ = now_ + kTick) {
      OfferAndStart();
      Deliver();
      for (ReceiverRank& receiver : receivers_) StepReceiver(&receiver);
      Interfere();
      for (OwnerRank& owner : owners_) {
        owner.machine->OnTime(now_);
        Collect(&owner);
      }
      if (::testing::Test::HasFailure()) return;
    }
    CheckAllEnded();
  }

  int oks() const { return oks_; }
  int failures() const { return failures_; }

 private:
  void MakeOwners(const wire::Layout& layout) {
    for (uint32_t r = 0; r < RankCount(layout); ++r) {
      OwnerRank& owner = owners_.emplace_back();
      owner.local = {"ctx", InstanceEpoch(9), r, layout, {}, ShapeOf(layout, r, kPoolBlocks)};
      owner.pool.resize(owner.local.shape.pool_bytes());
      owner.machine = std::make_unique<Owner>(owner.local);
      for (uint64_t lease = 1; lease <= kLeases; ++lease) {
        owner.offer_at[lease] = now_ + milliseconds(rng_.Below(100));
      }
    }
  }

  void MakeReceivers(const wire::Layout& layout, uint32_t group) {
    for (uint32_t r = 0; r < RankCount(layout); ++r) {
      ReceiverRank& receiver = receivers_.emplace_back();
      receiver.group = group;
      receiver.local = {"gen", InstanceEpoch(20 + group),      r, layout,
                        {},    ShapeOf(layout, r, kPoolBlocks)};
      receiver.pool.resize(receiver.local.shape.pool_bytes());
      receiver.machine = std::make_unique<Receiver>(receiver.local, Limits());
      for (uint64_t lease = 1; lease <= kLeases; ++lease) {
        // Some ranks never ask: their peers' leases end by deadline.
        if (rng_.Chance(0.05)) continue;
        receiver.start_at[lease] = now_ + milliseconds(rng_.Below(rng_.Chance(0.1) ? 500 : 120));
      }
    }
  }

  static std::vector<BlockId> BlocksOf(uint64_t lease) {
    return testing::Blocks(static_cast<uint32_t>(lease - 1) * kBlocksEach, kBlocksEach);
  }
  // The same for all ranks of a receiver.
  static uint32_t SkipOf(uint64_t lease) { return lease == 3 ? kBlocksEach : lease == 2 ? 1 : 0; }

  void OfferAndStart() {
    for (OwnerRank& owner : owners_) {
      for (auto it = owner.offer_at.begin(); it != owner.offer_at.end();) {
        if (now_ < it->second) {
          ++it;
          continue;
        }
        OfferSpec offer{it->first, Attempt(2), BlocksOf(it->first), 6, now_ + kOffer, kTransfer};
        if (rng_.Chance(0.1)) offer.request_deadline = now_ + milliseconds(rng_.Below(200));
        testing::FillBlocks(owner.local.layout, owner.local.rank, offer.blocks, it->first,
                            owner.pool);
        ASSERT_TRUE(owner.machine->Offer(offer, now_).ok());
        owner.ended[it->first] = 0;
        it = owner.offer_at.erase(it);
      }
      Collect(&owner);
    }
    for (ReceiverRank& receiver : receivers_) Start(&receiver);
  }

  void Start(ReceiverRank* receiver) {
    for (auto it = receiver->start_at.begin(); it != receiver->start_at.end();) {
      if (now_ < it->second) {
        ++it;
        continue;
      }
      FetchSpec spec;
      spec.descriptor.instance = "ctx";
      spec.descriptor.instance_epoch = InstanceEpoch(rng_.Chance(0.03) ? 8 : 9);
      spec.descriptor.attempt = Attempt(rng_.Chance(0.03) ? 1 : 2);
      spec.descriptor.lease = it->first;
      spec.descriptor.layout = owners_[0].local.layout;
      for (const OwnerRank& owner : owners_) {
        spec.descriptor.endpoints.push_back({owner.local.rank, "o"});
      }
      for (const BlockId block : BlocksOf(it->first)) {
        spec.descriptor.blocks.push_back(block.value);
      }
      spec.blocks = BlocksOf(it->first);
      std::reverse(spec.blocks.begin(), spec.blocks.end());
      spec.skip_blocks = SkipOf(it->first);
      spec.receiver = "gen/" + std::to_string(receiver->group) + "/a" + std::to_string(it->first);
      spec.deadline = now_ + milliseconds(600);
      const auto endpoints = receiver->machine->Prepare(spec);
      ASSERT_TRUE(endpoints.ok()) << endpoints.status().ToString();
      std::vector<PeerId> peers;
      FetchTrack track{it->first, {}, {}, 0};
      for (const wire::RankEndpoint& e : *endpoints) {
        peers.push_back(e.rank + 1);
        track.legs.insert(e.rank);
      }
      receiver->fetches[receiver->machine->Start(spec, peers, now_)] = track;
      EXPECT_EQ(receiver->machine->Prepare(spec).status().code(), StatusCode::kAlreadyExists);
      it = receiver->start_at.erase(it);
    }
  }

  void Post(bool to_owner, uint32_t owner, uint32_t receiver, const Message& message) {
    const std::string bytes = EncodeMessage(message);
    for (int copies = 1 + rng_.Chance(repeat_); copies > 0; --copies) {
      if (rng_.Chance(loss_)) continue;
      network_.push_back(
          {now_ + milliseconds(rng_.Below(delay_ms_)), to_owner, owner, receiver, bytes});
    }
  }

  void Deliver() {
    std::vector<InFlight> due;
    std::erase_if(network_, [&](const InFlight& m) {
      // Who is frozen reads nothing; its messages wait.
      const bool ready =
          m.at <= now_ && (m.to_owner || receivers_[m.receiver].frozen_until <= now_);
      if (ready) due.push_back(m);
      return ready;
    });
    for (size_t i = due.size(); i > 1; --i) std::swap(due[i - 1], due[rng_.Below(i)]);
    for (const InFlight& m : due) {
      const Result<Message> message = DecodeMessage(m.bytes);
      ASSERT_TRUE(message.ok());
      if (m.to_owner) {
        owners_[m.owner].machine->OnMessage(m.receiver + 1, *message, now_);
        Collect(&owners_[m.owner]);
      } else {
        ReceiverRank& receiver = receivers_[m.receiver];
        if (message->kind == Kind::kValid) receiver.fetches[message->fetch].valid.insert(m.owner);
        receiver.machine->OnMessage(m.owner + 1, *message, now_);
        Collect(&receiver);
      }
    }
  }

  void StepReceiver(ReceiverRank* receiver) {
    if (receiver->frozen_until > now_) return;
    // Like SIGSTOP: somewhere in the middle of copying.
    const bool freezes = rng_.Chance(0.01);
    for (const Receiver::Copy& copy : receiver->machine->Copies()) {
      if (rng_.Chance(0.5)) continue;
      const uint64_t left = copy.stream->total_bytes() - copy.received;
      const uint64_t bytes = 1 + rng_.Below(left);
      OwnerRank& owner = owners_[copy.owner_rank];
      copy.stream->ForEach(copy.received, bytes, [&](uint64_t from, uint64_t to, uint64_t n) {
        std::memcpy(&receiver->pool[to], &owner.pool[from], n);
      });
      copied_.push_back({copy.fetch, copy.owner_rank, bytes});
      if (freezes) break;
    }
    for (const auto& [fetch, owner_rank, bytes] : copied_) {
      receiver->machine->OnCopied(fetch, owner_rank, bytes, now_);
    }
    copied_.clear();
    receiver->machine->OnTime(now_);
    if (freezes) {
      receiver->frozen_until = now_ + milliseconds(rng_.Below(400));
      // What it was about to send leaves when it runs again, like everything else.
      return;
    }
    Collect(receiver);
  }

  void Interfere() {
    if (rng_.Chance(0.001)) {
      OwnerRank& owner = owners_[rng_.Below(owners_.size())];
      owner.machine->Withdraw(1 + rng_.Below(kLeases), "test");
      Collect(&owner);
    }
    if (rng_.Chance(0.001)) {
      ReceiverRank& receiver = receivers_[rng_.Below(receivers_.size())];
      if (receiver.fetches.empty()) return;
      receiver.machine->Abort(receiver.fetches.begin()->first, "test");
      Collect(&receiver);
    }
    if (rng_.Chance(0.001)) {
      const uint32_t o = static_cast<uint32_t>(rng_.Below(owners_.size()));
      const uint32_t r = static_cast<uint32_t>(rng_.Below(receivers_.size()));
      owners_[o].machine->OnPeerLost(r + 1, "test");
      receivers_[r].machine->OnPeerLost(o + 1, UnavailableError("test"));
      Collect(&owners_[o]);
      Collect(&receivers_[r]);
    }
  }

  void Collect(OwnerRank* owner) {
    for (const Outgoing& out : owner->machine->TakeMessages()) {
      Post(false, owner->local.rank, static_cast<uint32_t>(out.peer - 1), out.message);
    }
    for (const LeaseEnded& ended : owner->machine->TakeEnded()) {
      ASSERT_EQ(++owner->ended[ended.lease], 1) << "blocks reported free twice";
      // Reused at once.
      const size_t bytes = owner->local.shape.block_bytes();
      for (const BlockId block : BlocksOf(ended.lease)) {
        std::memset(&owner->pool[block.value * bytes], 0, bytes);
      }
    }
  }

  void Collect(ReceiverRank* receiver) {
    const uint32_t index = static_cast<uint32_t>(receiver - receivers_.data());
    for (const Outgoing& out : receiver->machine->TakeMessages()) {
      Post(true, static_cast<uint32_t>(out.peer - 1), index, out.message);
    }
    for (const FetchEnded& ended : receiver->machine->TakeEnded()) {
      FetchTrack& track = receiver->fetches[ended.fetch];
      ASSERT_EQ(++track.ended, 1);
      if (!ended.status.ok()) {
        ++failures_;
        continue;
      }
      ++oks_;
      ASSERT_EQ(track.valid, track.legs) << "OK without valid from all";
      std::vector<BlockId> blocks = BlocksOf(track.lease);
      std::reverse(blocks.begin(), blocks.end());
      ASSERT_EQ(testing::CompareBlocks(receiver->local.layout, receiver->local.rank, blocks,
                                       SkipOf(track.lease), track.lease, receiver->pool),
                "");
    }
  }

  void CheckAllEnded() {
    for (const OwnerRank& owner : owners_) {
      EXPECT_EQ(owner.machine->open_leases(), 0u);
      EXPECT_EQ(owner.ended.size(), kLeases);
      for (const auto& [lease, times] : owner.ended) EXPECT_EQ(times, 1);
    }
    for (const ReceiverRank& receiver : receivers_) {
      EXPECT_EQ(receiver.machine->open_fetches(), 0u);
      for (const auto& [id, track] : receiver.fetches) EXPECT_EQ(track.ended, 1);
    }
  }

  Rng rng_;
  MonoTime now_{1'000'000'000};
  double loss_ = 0;
  double repeat_ = 0;
  uint64_t delay_ms_ = 1;
  std::vector<OwnerRank> owners_;
  std::vector<ReceiverRank> receivers_;
  std::vector<InFlight> network_;
  std::vector<std::tuple<uint64_t, uint32_t, uint64_t>> copied_;
  int oks_ = 0;
  int failures_ = 0;
};

TEST(TransferProperty, NoSideIsStuckAndNoForeignByteIsEverOk) {
  int oks = 0;
  int failures = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE("seed=" + std::to_string(seed));
    World world(seed);
    world.Run();
    if (HasFailure()) return;
    oks += world.oks();
    failures += world.failures();
  }
  // Both outcomes are common, or the test would show nothing.
  EXPECT_GT(oks, 5000);
  EXPECT_GT(failures, 5000);
}

}  // namespace
}  // namespace baton::transfer
