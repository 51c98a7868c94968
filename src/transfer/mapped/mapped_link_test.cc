// What peers of ill will or bad luck can do to a mapped link.
#include "src/transfer/mapped/mapped_link.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "src/base/check.h"
#include "src/transfer/harness.h"
#include "src/transfer/layout.h"
#include "src/transfer/mapped/connections.h"
#include "src/transfer/testing.h"

namespace baton::transfer {
namespace {

using testing::Blocks;
using testing::Fabric;
using testing::MakeLayout;
using testing::TestRank;
using testing::Until;

std::string PathOf(const TestRank& rank) {
  return rank.pair.source->endpoint().substr(std::string("mapped:").size());
}

TEST(MappedLink, RefusesAFolderThatIsMissingOrTooLongForASocket) {
  Fabric fabric("mapped");
  const TestRank rank = fabric.MakeRank("c", 1, MakeLayout(1, 1, 2, 2), 0, 2);
  for (const std::string& folder : {std::string("/nonexistent"), "/" + std::string(90, 'x')}) {
    EXPECT_EQ(
        MakeTransport("mapped", rank.local, rank.pool->fd(), folder, &RealClock()).status().code(),
        StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(MakeTransport("mapped", rank.local, -1, fabric.folder(), &RealClock()).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeTransport("pigeon", rank.local, rank.pool->fd(), fabric.folder(), &RealClock())
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

TEST(MappedLink, ALongestAllowedFolderWorks) {
  const std::string folder = "/tmp/" + std::string(75, 'f');
  std::filesystem::create_directory(folder);
  Fabric fabric("mapped", folder);
  {
    const TestRank rank = fabric.MakeRank("c", 1, MakeLayout(1, 1, 2, 2), 0, 2);
    EXPECT_TRUE(ConnectTo(PathOf(rank)).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "the socket's file goes with the link";
  std::filesystem::remove_all(folder);
}

TEST(MappedLink, TheOwnersPoolCannotBeWrittenThroughWhatItPasses) {
  Fabric fabric("mapped");
  const TestRank rank = fabric.MakeRank("c", 1, MakeLayout(1, 1, 2, 2), 0, 2);
  Result<Fd> fd = ConnectTo(PathOf(rank));
  ASSERT_TRUE(fd.ok());
  PacketSocket socket(std::move(*fd));
  std::optional<Packet> hello;
  ASSERT_TRUE(Until([&] { return hello.has_value(); },
                    [&] {
                      rank.pair.source->Poll();
                      auto packet = socket.Receive();
                      CHECK_OK(packet.status());
                      hello = std::move(*packet);
                    }));
  ASSERT_TRUE(hello->fd.ok());
  EXPECT_EQ(write(hello->fd.get(), "x", 1), -1);
  EXPECT_EQ(ftruncate(hello->fd.get(), 0), -1);
  EXPECT_EQ(mmap(nullptr, 1, PROT_WRITE, MAP_SHARED, hello->fd.get(), 0), MAP_FAILED);
}

TEST(MappedLink, GarbageCostsThePeerItsConnectionAndNobodyElse) {
  Fabric fabric("mapped");
  std::vector<TestRank> owners = fabric.MakeInstance("c", 1, MakeLayout(1, 1, 2, 2), 2);
  TestRank good = fabric.MakeRank("g", 1, owners[0].local.layout, 0, 2);
  Result<Fd> fd = ConnectTo(PathOf(owners[0]));
  ASSERT_TRUE(fd.ok());
  PacketSocket bad(std::move(*fd));
  ASSERT_TRUE(bad.Send("not a message").ok());
  bool hung_up = false;
  ASSERT_TRUE(Until([&] { return hung_up; },
                    [&] {
                      owners[0].pair.source->Poll();
                      hung_up = !bad.Receive().ok();
                    }));
  const OfferSpec offer = testing::MakeOffer(1, Blocks(0, 2));
  ASSERT_TRUE(owners[0].pair.source->Offer(offer).ok());
  ASSERT_TRUE(
      good.pair.sink->Start(testing::MakeFetch(testing::Describe(owners, offer), offer.blocks))
          .ok());
  std::vector<FetchEnded> ended;
  ASSERT_TRUE(Until([&] { return !ended.empty(); },
                    [&] {
                      owners[0].pair.source->Poll();
                      ended = good.pair.sink->Poll();
                    }));
  EXPECT_TRUE(ended[0].status.ok()) << ended[0].status.ToString();
}

// Plays an owner that passes `fd` and says that it holds `bytes`; the link's verdict.
Status VerdictOn(int fd, uint64_t bytes) {
  Fabric folder("mapped");
  const std::string path = folder.folder() + "/s";
  Result<Fd> listener = ListenAt(path);
  CHECK_OK(listener.status());
  auto link = MakeMappedReceiverLink();
  CHECK_OK(link.status());
  const Result<PeerId> peer = (*link)->Connect("mapped:" + path);
  CHECK_OK(peer.status());
  PacketSocket socket(Accept(listener->get()));
  Message hello;
  hello.kind = Kind::kHello;
  hello.instance = "c";
  hello.bytes = bytes;
  CHECK_OK(socket.SendWithFd(EncodeMessage(hello), fd));
  std::vector<LinkEvent> events;
  std::byte byte{};
  Until([&] { return !events.empty() || (*link)->Pull(*peer, 0, &byte, 1).ok(); },
        [&] { (*link)->Poll(&events); });
  return events.empty() ? OkStatus() : events[0].why;
}

TEST(MappedLink, APoolThatCouldShrinkOrIsSmallerThanSaidIsRefused) {
  auto pool = HostPool::Create("p", 8192);
  ASSERT_TRUE(pool.ok());
  EXPECT_TRUE(VerdictOn((*pool)->fd(), 8192).ok());
  EXPECT_EQ(VerdictOn((*pool)->fd(), 8193).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(VerdictOn((*pool)->fd(), 0).code(), StatusCode::kInvalidArgument);
  const Fd unsealed(memfd_create("u", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 8192), 0);
  EXPECT_EQ(VerdictOn(unsealed.get(), 8192).code(), StatusCode::kInvalidArgument);
}

TEST(MappedLink, NobodyAtTheEndpointIsReportedNotRetriedForEver) {
  auto link = MakeMappedReceiverLink();
  ASSERT_TRUE(link.ok());
  const Result<PeerId> peer = (*link)->Connect("mapped:/tmp/no-such-socket");
  ASSERT_TRUE(peer.ok());
  std::vector<LinkEvent> events;
  (*link)->Poll(&events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].why.code(), StatusCode::kUnavailable);
  EXPECT_EQ((*link)->Connect("mapped:" + std::string(200, 'x')).ok(), true);
  events.clear();
  (*link)->Poll(&events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].why.code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::transfer
