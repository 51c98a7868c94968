// What every transport must do, in one process. Each test runs over each transport.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "src/base/fault.h"
#include "src/transfer/harness.h"
#include "src/transfer/layout.h"
#include "src/transfer/testing.h"

namespace baton::transfer {
namespace {

using std::chrono::milliseconds;
using testing::BigLayout;
using testing::Blocks;
using testing::CompareBlocks;
using testing::Describe;
using testing::Fabric;
using testing::FillBlocks;
using testing::MakeFetch;
using testing::MakeLayout;
using testing::MakeOffer;
using testing::TestRank;
using testing::Until;

constexpr uint32_t kBigBlocks = 96;  // 12 MiB: more than one Poll copies and one window sends

class Conformance : public ::testing::TestWithParam<const char*> {
 protected:
  Conformance() : fabric_(GetParam()) {}
  void TearDown() override { CHECK_OK(SetFaultPlan("")); }

  void Setup(const wire::Layout& owner, const wire::Layout& receiver, uint32_t blocks) {
    owners_ = fabric_.MakeInstance("context", 4, owner, blocks);
    receivers_ = fabric_.MakeInstance("generation", 7, receiver, blocks);
  }

  wire::HandoffDescriptor OfferAll(const OfferSpec& offer) {
    for (TestRank& owner : owners_) {
      FillBlocks(owner.local.layout, owner.local.rank, offer.blocks, offer.lease, owner.bytes());
      EXPECT_TRUE(owner.pair.source->Offer(offer).ok());
    }
    return Describe(owners_, offer);
  }

  uint64_t Start(TestRank* receiver, const FetchSpec& fetch) {
    const Result<uint64_t> id = receiver->pair.sink->Start(fetch);
    CHECK_OK(id.status());
    return *id;
  }
  void StartAll(const FetchSpec& fetch) {
    for (TestRank& receiver : receivers_) Start(&receiver, fetch);
  }

  void PollOwners() {
    for (TestRank& owner : owners_) {
      for (LeaseEnded& ended : owner.pair.source->Poll()) leases_.push_back(std::move(ended));
    }
  }
  void PollReceivers() {
    for (TestRank& receiver : receivers_) {
      for (FetchEnded& ended : receiver.pair.sink->Poll()) fetches_.push_back(std::move(ended));
    }
  }
  bool PollUntil(const std::function<bool()>& done) {
    return Until(done, [&] {
      PollOwners();
      PollReceivers();
    });
  }
  // That many fetches and leases ended.
  bool PollUntilEnded(size_t fetches, size_t leases) {
    return PollUntil([&] { return fetches_.size() >= fetches && leases_.size() >= leases; });
  }

  void ExpectAllOk() {
    for (const FetchEnded& ended : fetches_)
      EXPECT_TRUE(ended.status.ok()) << ended.status.ToString();
    for (const LeaseEnded& ended : leases_) EXPECT_EQ(ended.end, LeaseEnd::kDone) << ended.reason;
  }
  void ExpectBytes(const std::vector<BlockId>& blocks, uint32_t skip, uint64_t seed) {
    for (const TestRank& r : receivers_) {
      EXPECT_EQ(CompareBlocks(r.local.layout, r.local.rank, blocks, skip, seed, r.bytes()), "");
    }
  }
  // The reason, for a fetch that must not have been OK.
  void ExpectFailed(const FetchEnded& ended, StatusCode code, const std::string& part) {
    EXPECT_EQ(ended.status.code(), code) << ended.status.ToString();
    EXPECT_NE(ended.status.message().find(part), std::string::npos) << ended.status.ToString();
  }

  // Polls until some, not all, bytes are here, and then both sides stand still.
  void CopyHalf() {
    const size_t last = receivers_[0].bytes().size() - 1;
    ASSERT_TRUE(PollUntil([&] { return receivers_[0].bytes()[0] != std::byte{0}; }));
    ASSERT_EQ(receivers_[0].bytes()[last], std::byte{0}) << "not in the middle any more";
    ASSERT_TRUE(fetches_.empty());
    ASSERT_TRUE(leases_.empty());
  }
  OfferSpec BigOffer() {
    Setup(BigLayout(), BigLayout(), kBigBlocks);
    return MakeOffer(1, Blocks(0, kBigBlocks));
  }

  Fabric fabric_;
  std::vector<TestRank> owners_;
  std::vector<TestRank> receivers_;
  std::vector<LeaseEnded> leases_;
  std::vector<FetchEnded> fetches_;
};

TEST_P(Conformance, BytesAreExactBetweenUnequalLayouts) {
  const std::pair<wire::Layout, wire::Layout> pairs[] = {
      {MakeLayout(2, 2, 7, 5), MakeLayout(3, 1, 7, 5)},
      {MakeLayout(1, 1, 7, 5), MakeLayout(2, 3, 7, 5)},
      {MakeLayout(4, 1, 3, 2), MakeLayout(1, 2, 3, 2)},  // replicas at the owner
      {MakeLayout(1, 2, 3, 2), MakeLayout(4, 1, 3, 2)},  // replicas at the receiver
  };
  for (const auto& [owner, receiver] : pairs) {
    fetches_.clear();
    leases_.clear();
    Setup(owner, receiver, 12);
    const std::vector<BlockId> to = {BlockId(11), BlockId(0), BlockId(6), BlockId(7), BlockId(3)};
    StartAll(MakeFetch(OfferAll(MakeOffer(1, Blocks(2, 5))), to));
    ASSERT_TRUE(PollUntilEnded(RankCount(receiver), RankCount(owner)));
    ExpectAllOk();
    ExpectBytes(to, 0, 1);
  }
}

TEST_P(Conformance, SkippedBlocksAreNotSent) {
  Setup(MakeLayout(2, 1, 4, 3), MakeLayout(1, 2, 4, 3), 8);
  FetchSpec fetch = MakeFetch(OfferAll(MakeOffer(1, Blocks(0, 4))), Blocks(4, 4));
  fetch.skip_blocks = 3;
  StartAll(fetch);
  ASSERT_TRUE(PollUntilEnded(2, 2));
  ExpectAllOk();
  ExpectBytes(fetch.blocks, 3, 1);
  for (const TestRank& r : receivers_) {
    const size_t block = r.local.shape.block_bytes();
    for (size_t i = 4 * block; i < 7 * block; ++i) ASSERT_EQ(r.bytes()[i], std::byte{0});
  }
  EXPECT_EQ(fetches_[0].bytes + fetches_[1].bytes,
            ShapeOf(MakeLayout(1, 1, 4, 3), 0, 1).block_bytes());
}

TEST_P(Conformance, AReceiverThatNeedsNoBlockStillEndsTheLease) {
  Setup(MakeLayout(2, 2, 4, 3), MakeLayout(1, 1, 4, 3), 4);
  FetchSpec fetch = MakeFetch(OfferAll(MakeOffer(1, Blocks(0, 3))), Blocks(0, 3));
  fetch.skip_blocks = 3;
  StartAll(fetch);
  ASSERT_TRUE(PollUntilEnded(1, 4));
  ExpectAllOk();
  EXPECT_EQ(fetches_[0].bytes, 0u);
}

TEST_P(Conformance, ManyFetchesProgressAtOnceAndASmallOneOvertakesALargeOne) {
  constexpr uint32_t kMany = 12;
  Setup(BigLayout(), BigLayout(), kBigBlocks + kMany);
  const OfferSpec large = MakeOffer(1, Blocks(0, kBigBlocks));
  const uint64_t large_id = Start(&receivers_[0], MakeFetch(OfferAll(large), large.blocks));
  for (uint32_t i = 0; i < kMany; ++i) {
    const OfferSpec offer = MakeOffer(2 + i, Blocks(kBigBlocks + i, 1));
    Start(&receivers_[0], MakeFetch(OfferAll(offer), offer.blocks));
  }
  ASSERT_TRUE(PollUntilEnded(1 + kMany, 1 + kMany));
  ExpectAllOk();
  ExpectBytes(large.blocks, 0, 1);
  for (uint32_t i = 0; i < kMany; ++i) ExpectBytes(Blocks(kBigBlocks + i, 1), 0, 2 + i);
  EXPECT_EQ(fetches_.back().fetch, large_id);
}

TEST_P(Conformance, AnAskBeforeTheOfferWaitsAndOthersAreNotHeldUp) {
  Setup(MakeLayout(2, 1, 4, 4), MakeLayout(1, 1, 4, 4), 8);
  const OfferSpec late = MakeOffer(1, Blocks(0, 2));
  Start(&receivers_[0], MakeFetch(Describe(owners_, late), Blocks(0, 2)));
  Start(&receivers_[0], MakeFetch(OfferAll(MakeOffer(2, Blocks(2, 2))), Blocks(2, 2)));
  ASSERT_TRUE(PollUntilEnded(1, 2));
  ExpectBytes(Blocks(2, 2), 0, 2);
  OfferAll(late);
  ASSERT_TRUE(PollUntilEnded(2, 4));
  ExpectAllOk();
  ExpectBytes(Blocks(0, 2), 0, 1);
}

TEST_P(Conformance, AnAskThatIsNeverOfferedEndsAtItsDeadlineNamingTheOwner) {
  Setup(MakeLayout(1, 1, 4, 4), MakeLayout(1, 1, 4, 4), 8);
  FetchSpec fetch = MakeFetch(Describe(owners_, MakeOffer(9, Blocks(0, 2))), Blocks(0, 2));
  fetch.deadline = RealClock().Now() + milliseconds(40);
  StartAll(fetch);
  ASSERT_TRUE(PollUntilEnded(1, 0));
  ExpectFailed(fetches_[0], StatusCode::kDeadlineExceeded, "grant from context rank 0");
}

TEST_P(Conformance, TheFirstAskBindsTheLease) {
  Setup(MakeLayout(1, 1, 4, 4), MakeLayout(2, 1, 4, 4), 4);
  const FetchSpec first = MakeFetch(OfferAll(MakeOffer(1, Blocks(0, 2))), Blocks(0, 2));
  // One of two ranks: the lease stays open.
  Start(&receivers_[0], first);
  ASSERT_TRUE(PollUntilEnded(1, 0));
  EXPECT_TRUE(fetches_[0].status.ok());
  FetchSpec foreign = first;
  foreign.receiver = "generation/8/other";
  Start(&receivers_[1], foreign);
  ASSERT_TRUE(PollUntilEnded(2, 0));
  ExpectFailed(fetches_[1], StatusCode::kAlreadyExists, "taken by generation/7/assignment-1");
  EXPECT_TRUE(leases_.empty()) << "who was refused must not end the lease of who holds it";
}

TEST_P(Conformance, RefusalsSayWhy) {
  Setup(MakeLayout(1, 1, 4, 4), MakeLayout(1, 1, 4, 4), 4);
  const auto fetch = [&](const wire::HandoffDescriptor& d) {
    fetches_.clear();
    Start(&receivers_[0], MakeFetch(d, Blocks(0, 1)));
    EXPECT_TRUE(PollUntilEnded(1, 0));
    return fetches_.at(0);
  };
  wire::HandoffDescriptor d = OfferAll(MakeOffer(1, Blocks(0, 1)));
  d.attempt = Attempt(2);
  ExpectFailed(fetch(d), StatusCode::kAborted, "attempt 1");
  d = OfferAll(MakeOffer(2, Blocks(0, 1)));
  d.instance_epoch = InstanceEpoch(3);
  ExpectFailed(fetch(d), StatusCode::kAborted, "epoch 4");
  d = OfferAll(MakeOffer(3, Blocks(0, 1)));
  owners_[0].pair.source->Withdraw(3, "cancelled by its client");
  ExpectFailed(fetch(d), StatusCode::kAborted, "withdrawn: cancelled by its client");
  OfferSpec expiring = MakeOffer(4, Blocks(0, 1));
  expiring.offer_deadline = RealClock().Now() + milliseconds(5);
  d = OfferAll(expiring);
  ASSERT_TRUE(PollUntil([&] { return leases_.size() == 2; }));
  ExpectFailed(fetch(d), StatusCode::kAborted, "offer expired");
  d = OfferAll(MakeOffer(5, Blocks(0, 1)));
  d.blocks.push_back(1);
  Start(&receivers_[0], MakeFetch(d, Blocks(0, 2)));
  fetches_.clear();
  ASSERT_TRUE(PollUntilEnded(1, 0));
  ExpectFailed(fetches_[0], StatusCode::kInvalidArgument, "2 blocks, the lease 1");
}

TEST_P(Conformance, ADescriptorIsNeverUsedTwice) {
  Setup(MakeLayout(1, 1, 4, 4), MakeLayout(1, 1, 4, 4), 4);
  FetchSpec fetch = MakeFetch(OfferAll(MakeOffer(1, Blocks(0, 2))), Blocks(0, 2));
  StartAll(fetch);
  ASSERT_TRUE(PollUntilEnded(1, 1));
  ExpectAllOk();
  EXPECT_EQ(receivers_[0].pair.sink->Start(fetch).status().code(), StatusCode::kAlreadyExists);
  // Another incarnation that knows nothing of the first is refused by the owner.
  receivers_ = fabric_.MakeInstance("generation", 8, receivers_[0].local.layout, 4);
  StartAll(fetch);
  ASSERT_TRUE(PollUntilEnded(2, 1));
  ExpectFailed(fetches_[1], StatusCode::kAborted, "ended: taken by generation/7/assignment-1");
  EXPECT_EQ(owners_[0].pair.source->Offer(MakeOffer(1, Blocks(0, 2))).code(),
            StatusCode::kAlreadyExists);
}

TEST_P(Conformance, AnOfferThatNobodyAsksForEndsOnTimeWithoutTraffic) {
  Setup(MakeLayout(1, 1, 4, 4), MakeLayout(1, 1, 4, 4), 4);
  OfferSpec offer = MakeOffer(1, Blocks(0, 2));
  offer.offer_deadline = RealClock().Now() + milliseconds(10);
  OfferAll(offer);
  offer = MakeOffer(2, Blocks(0, 2));
  offer.request_deadline = RealClock().Now() + milliseconds(10);
  OfferAll(offer);
  ASSERT_TRUE(PollUntilEnded(0, 2));
  for (const LeaseEnded& ended : leases_) EXPECT_EQ(ended.end, LeaseEnd::kOfferExpired);
}

TEST_P(Conformance, AWithdrawnLeaseIsReportedOnce) {
  Setup(MakeLayout(1, 1, 4, 4), MakeLayout(1, 1, 4, 4), 4);
  OfferAll(MakeOffer(1, Blocks(0, 2)));
  owners_[0].pair.source->Withdraw(1, "first");
  owners_[0].pair.source->Withdraw(1, "second");
  PollOwners();
  PollOwners();
  ASSERT_EQ(leases_.size(), 1u);
  EXPECT_EQ(leases_[0].end, LeaseEnd::kWithdrawn);
  EXPECT_EQ(leases_[0].reason, "withdrawn: first");
}

TEST_P(Conformance, AnAbortInTheMiddleEndsTheLeaseAtOnceWithItsReason) {
  const OfferSpec offer = BigOffer();
  const FetchSpec fetch = MakeFetch(OfferAll(offer), offer.blocks);
  const uint64_t id = Start(&receivers_[0], fetch);
  CopyHalf();
  receivers_[0].pair.sink->Abort(id, "cancelled by its client");
  receivers_[0].pair.sink->Abort(id, "again");
  ASSERT_TRUE(PollUntilEnded(1, 1));
  ExpectFailed(fetches_[0], StatusCode::kCancelled, "cancelled by its client");
  EXPECT_EQ(leases_[0].end, LeaseEnd::kAborted);
  EXPECT_NE(leases_[0].reason.find("cancelled by its client"), std::string::npos);
}

TEST_P(Conformance, WhatIsWithdrawnInTheMiddleIsStale) {
  const OfferSpec offer = BigOffer();
  StartAll(MakeFetch(OfferAll(offer), offer.blocks));
  CopyHalf();
  owners_[0].pair.source->Withdraw(1, "cancelled by its client");
  PollOwners();
  ASSERT_EQ(leases_.size(), 1u);
  std::memset(owners_[0].bytes().data(), 0xee, owners_[0].bytes().size());
  ASSERT_TRUE(PollUntilEnded(1, 1));
  ExpectFailed(fetches_[0], StatusCode::kAborted, "stale: withdrawn: cancelled by its client");
}

TEST_P(Conformance, AReceiverThatStoodStillPastTheLeaseIsNeverOk) {
  OfferSpec offer = BigOffer();
  offer.transfer_timeout = milliseconds(400);
  FetchSpec fetch = MakeFetch(OfferAll(offer), offer.blocks);
  fetch.deadline = RealClock().Now() + std::chrono::seconds(3);
  StartAll(fetch);
  CopyHalf();
  ASSERT_TRUE(Until([&] { return !leases_.empty(); }, [&] { PollOwners(); }));
  EXPECT_EQ(leases_[0].end, LeaseEnd::kTransferExpired);
  EXPECT_NE(leases_[0].reason.find("waited for generation/7/assignment-1 rank 0"),
            std::string::npos)
      << leases_[0].reason;
  std::memset(owners_[0].bytes().data(), 0xee, owners_[0].bytes().size());
  ASSERT_TRUE(PollUntilEnded(1, 1));
  EXPECT_FALSE(fetches_[0].status.ok());
}

TEST_P(Conformance, ALostReceiverEndsTheLease) {
  OfferSpec offer = BigOffer();
  offer.transfer_timeout = milliseconds(500);
  StartAll(MakeFetch(OfferAll(offer), offer.blocks));
  CopyHalf();
  receivers_.clear();
  ASSERT_TRUE(PollUntilEnded(0, 1));
  EXPECT_NE(leases_[0].end, LeaseEnd::kDone);
  EXPECT_NE(leases_[0].reason.find("generation/7/assignment-1"), std::string::npos);
}

TEST_P(Conformance, ALostOwnerEndsTheFetchWithinItsDeadline) {
  const OfferSpec offer = BigOffer();
  FetchSpec fetch = MakeFetch(OfferAll(offer), offer.blocks);
  fetch.deadline = RealClock().Now() + std::chrono::seconds(2);
  StartAll(fetch);
  CopyHalf();
  owners_.clear();
  ASSERT_TRUE(PollUntilEnded(1, 0));
  EXPECT_FALSE(fetches_[0].status.ok());
  EXPECT_NE(fetches_[0].status.message().find("context rank 0"), std::string::npos)
      << fetches_[0].status.ToString();
}

TEST_P(Conformance, ACutConnectionFailsBothSides) {
  OfferSpec offer = BigOffer();
  offer.transfer_timeout = milliseconds(500);
  FetchSpec fetch = MakeFetch(OfferAll(offer), offer.blocks);
  fetch.deadline = RealClock().Now() + std::chrono::seconds(2);
  // The sixth piece that is pulled, or what is pushed second after the grant.
  CHECK_OK(SetFaultPlan("transfer.copy.cut=fire@6,transfer.send.cut=fire@3"));
  StartAll(fetch);
  ASSERT_TRUE(PollUntilEnded(1, 1));
  EXPECT_FALSE(fetches_[0].status.ok());
  EXPECT_NE(leases_[0].end, LeaseEnd::kDone);
}

// Transports with a wire in between.
class ConformanceWire : public Conformance {};

TEST_P(ConformanceWire, AFlippedByteIsDataLossAndFailsThePair) {
  const OfferSpec offer = BigOffer();
  CHECK_OK(SetFaultPlan("transfer.wire.flip=fire@7"));
  StartAll(MakeFetch(OfferAll(offer), offer.blocks));
  ASSERT_TRUE(PollUntilEnded(1, 1));
  ExpectFailed(fetches_[0], StatusCode::kDataLoss, "CRC32C");
  EXPECT_EQ(leases_[0].end, LeaseEnd::kAborted);
}

TEST_P(Conformance, LayoutsThatCannotMeetAreRefusedAtTheStart) {
  Setup(MakeLayout(1, 1, 4, 4), MakeLayout(1, 1, 4, 4), 4);
  wire::HandoffDescriptor d = OfferAll(MakeOffer(1, Blocks(0, 1)));
  d.layout.rope = "base=500000";
  const Status status = receivers_[0].pair.sink->Start(MakeFetch(d, Blocks(0, 1))).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("base=500000"), std::string::npos);
  EXPECT_NE(status.message().find("base=10000"), std::string::npos);
}

TEST_P(Conformance, ADescriptorThatIsNotOursIsRefusedNotObeyed) {
  Setup(MakeLayout(1, 1, 4, 4), MakeLayout(1, 1, 4, 4), 4);
  const wire::HandoffDescriptor good = OfferAll(MakeOffer(1, Blocks(0, 1)));
  const auto refused = [&](wire::HandoffDescriptor d, size_t blocks) {
    return receivers_[0].pair.sink->Start(MakeFetch(d, Blocks(0, blocks))).status().code() ==
           StatusCode::kInvalidArgument;
  };
  wire::HandoffDescriptor d = good;
  d.endpoints.clear();
  EXPECT_TRUE(refused(d, 1));
  d = good;
  d.endpoints[0].endpoint = "carrier pigeon";
  EXPECT_TRUE(refused(d, 1));
  EXPECT_TRUE(refused(good, 2));
  d = good;
  d.instance = std::string(1000, 'x');
  EXPECT_TRUE(refused(d, 1));
  d = good;
  d.blocks.assign(5, 0);
  EXPECT_TRUE(refused(d, 5)) << "block 4 is outside the pool of 4";
}

INSTANTIATE_TEST_SUITE_P(All, ConformanceWire, ::testing::Values("ucx"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(All, Conformance, ::testing::Values("sim", "mapped", "ucx"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace baton::transfer
