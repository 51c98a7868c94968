#include "src/transfer/ucx/ucx_worker.h"

#include <gtest/gtest.h>

#include "src/base/clock.h"
#include "src/transfer/ucx/ucx_link.h"

namespace baton::transfer {
namespace {

Message Data() {
  Message message;
  message.kind = Kind::kData;
  return message;
}

TEST(UcxWorker, APeerThatNeverReadsCostsItsConnectionAtTheDeadlineOfARequest) {
  ManualClock clock;
  auto owner = UcxWorker::Create(UcxSide::kOwner, &clock);
  auto receiver = UcxWorker::Create(UcxSide::kReceiver, &clock);
  ASSERT_TRUE(owner.ok() && receiver.ok());
  const PeerId peer = (*owner)->PeerAt((*receiver)->address());
  for (int i = 0; i < 8; ++i) {
    std::vector<std::byte> payload(kPushBytes);
    ASSERT_TRUE((*owner)->SendData(peer, Data(), &payload));
  }
  std::vector<LinkEvent> events;
  for (int i = 0; i < 100; ++i) (*owner)->Poll(&events);
  EXPECT_TRUE(events.empty());
  clock.Advance(std::chrono::seconds(11));
  (*owner)->Poll(&events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].what, LinkEvent::What::kLost);
  EXPECT_EQ(events[0].peer, peer);
  EXPECT_EQ(events[0].why.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE((*owner)->PeerAt((*receiver)->address()), peer) << "a new connection, a new number";
}

TEST(UcxWorker, BytesOnTheirWayAreBounded) {
  ManualClock clock;
  auto owner = UcxWorker::Create(UcxSide::kOwner, &clock);
  auto receiver = UcxWorker::Create(UcxSide::kReceiver, &clock);
  ASSERT_TRUE(owner.ok() && receiver.ok());
  const PeerId peer = (*owner)->PeerAt((*receiver)->address());
  int taken = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<std::byte> payload(kPushBytes);
    if (!(*owner)->SendData(peer, Data(), &payload)) {
      EXPECT_EQ(payload.size(), kPushBytes) << "refused means untouched";
      break;
    }
    ++taken;
  }
  EXPECT_EQ(taken, 64);
}

TEST(UcxLink, AnEndpointThatIsNotHexOfUcxIsRefused) {
  auto link = MakeUcxReceiverLink(&RealClock());
  ASSERT_TRUE(link.ok());
  for (const char* text : {"", "ucx:", "ucx:abc", "ucx:zz", "mapped:/tmp/x"}) {
    EXPECT_EQ((*link)->Connect(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace baton::transfer
