// Hand-offs between two real processes, one of which is stopped or killed in the middle.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "src/base/check.h"
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
using testing::MakeOffer;
using testing::TestRank;
using testing::Until;

constexpr uint32_t kBlocks = 160;  // 20 MiB
constexpr char kPeer[] = "src/transfer/peer_main";

// A child with pipes; killed and reaped on destruction.
class Child {
 public:
  Child(const std::vector<std::string>& arguments, const std::string& faults) {
    std::array<int, 2> in;
    std::array<int, 2> out;
    CHECK(pipe2(in.data(), O_CLOEXEC) == 0 && pipe2(out.data(), O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::vector<char*> argv = {const_cast<char*>(kPeer)};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    const std::string fault_variable = "BATON_FAULTS=" + faults;
    std::vector<char*> variables = {const_cast<char*>(fault_variable.c_str())};
    for (char** e = environ; *e != nullptr; ++e) variables.push_back(*e);
    variables.push_back(nullptr);
    CHECK(posix_spawn(&pid_, kPeer, &actions, nullptr, argv.data(), variables.data()) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    in_ = in[1];
    out_ = out[0];
    CHECK(fcntl(out_, F_SETFL, O_NONBLOCK) == 0);
  }
  ~Child() {
    Signal(SIGKILL);
    if (!reaped_) waitpid(pid_, nullptr, 0);
    close(in_);
    close(out_);
  }
  void Signal(int signal) {
    if (!reaped_) kill(pid_, signal);
  }
  // The next line, empty when none is complete yet.
  std::string Line() {
    std::array<char, 4096> buffer;
    const ssize_t got = read(out_, buffer.data(), buffer.size());
    if (got > 0) text_.append(buffer.data(), static_cast<size_t>(got));
    const size_t end = text_.find('\n');
    if (end == std::string::npos) return "";
    std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    return line;
  }
  bool Stopped() {
    int status = 0;
    return waitpid(pid_, &status, WNOHANG | WUNTRACED) == pid_ && WIFSTOPPED(status);
  }
  bool Dead() {
    reaped_ = reaped_ || waitpid(pid_, nullptr, WNOHANG) == pid_;
    return reaped_;
  }

 private:
  pid_t pid_ = -1;
  bool reaped_ = false;
  int in_ = -1;
  int out_ = -1;
  std::string text_;
};

class TwoProcess : public ::testing::TestWithParam<const char*> {
 protected:
  TwoProcess() : fabric_(GetParam()) {}

  // This process owns, the child receives.
  Child OwnAgainstChild(Nanos transfer_timeout, const std::string& faults) {
    ranks_ = fabric_.MakeInstance("context", 4, BigLayout(), kBlocks);
    OfferSpec offer = MakeOffer(1, Blocks(0, kBlocks));
    offer.transfer_timeout = transfer_timeout;
    FillBlocks(BigLayout(), 0, offer.blocks, 1, ranks_[0].bytes());
    CHECK_OK(ranks_[0].pair.source->Offer(offer));
    return Child({"receiver", GetParam(), fabric_.folder(), std::to_string(kBlocks),
                  ranks_[0].pair.source->endpoint()},
                 faults);
  }
  void PollOwner() {
    for (LeaseEnded& ended : ranks_[0].pair.source->Poll()) leases_.push_back(std::move(ended));
  }
  // Meanwhile this process serves, when it owns.
  std::string LineOf(Child* child) {
    std::string line;
    EXPECT_TRUE(Until(
        [&] {
          line = child->Line();
          return !line.empty();
        },
        [&] {
          if (!ranks_.empty()) PollOwner();
        }));
    return line;
  }

  // The child owns, this process receives.
  void StartFetch(Child* child) {
    const std::string line = LineOf(child);
    ASSERT_EQ(line.substr(0, 9), "endpoint ");
    ranks_ = fabric_.MakeInstance("generation", 7, BigLayout(), kBlocks);
    const OfferSpec offer = MakeOffer(1, Blocks(0, kBlocks));
    wire::HandoffDescriptor descriptor = Describe(ranks_, offer);
    descriptor.instance = "context";
    descriptor.instance_epoch = InstanceEpoch(4);
    descriptor.endpoints[0].endpoint = line.substr(9);
    FetchSpec fetch = MakeFetch(descriptor, offer.blocks);
    fetch.deadline = RealClock().Now() + std::chrono::seconds(8);
    ASSERT_TRUE(ranks_[0].pair.sink->Start(fetch).ok());
  }
  void PollReceiver() {
    for (FetchEnded& ended : ranks_[0].pair.sink->Poll()) fetches_.push_back(std::move(ended));
  }

  Fabric fabric_;
  std::vector<TestRank> ranks_;
  std::vector<LeaseEnded> leases_;
  std::vector<FetchEnded> fetches_;
};

TEST_P(TwoProcess, BytesAreExactFromAnotherProcess) {
  Child owner({"owner", GetParam(), fabric_.folder(), std::to_string(kBlocks), "10000"}, "");
  StartFetch(&owner);
  ASSERT_TRUE(Until([&] { return !fetches_.empty(); }, [&] { PollReceiver(); }));
  ASSERT_TRUE(fetches_[0].status.ok()) << fetches_[0].status.ToString();
  EXPECT_EQ(fetches_[0].bytes, kBlocks * testing::kBigBlockBytes);
  EXPECT_EQ(CompareBlocks(BigLayout(), 0, Blocks(0, kBlocks), 0, 1, ranks_[0].bytes()), "");
  EXPECT_EQ(LineOf(&owner), "ended 1 0");
}

TEST_P(TwoProcess, AKilledOwnerEndsTheFetchWithinItsDeadline) {
  Child owner({"owner", GetParam(), fabric_.folder(), std::to_string(kBlocks), "10000"}, "");
  StartFetch(&owner);
  ASSERT_TRUE(Until([&] { return ranks_[0].bytes()[0] != std::byte{0}; }, [&] { PollReceiver(); }));
  ASSERT_TRUE(fetches_.empty());
  owner.Signal(SIGKILL);
  ASSERT_TRUE(Until([&] { return owner.Dead(); }, [] {}));
  ASSERT_TRUE(Until([&] { return !fetches_.empty(); }, [&] { PollReceiver(); }));
  EXPECT_FALSE(fetches_[0].status.ok());
  EXPECT_NE(fetches_[0].status.message().find("context rank 0"), std::string::npos)
      << fetches_[0].status.ToString();
}

// The receiver's place to stop at: in the middle of copying, or of taking what is pushed.
std::string InTheMiddle(const std::string& transport, const std::string& action) {
  return (transport == "ucx" ? "transfer.take=" : "transfer.copy=") + action + "@6";
}

TEST_P(TwoProcess, AReceiverThatIsStoppedPastTheLeaseIsNeverOk) {
  Child receiver = OwnAgainstChild(milliseconds(2000), InTheMiddle(GetParam(), "stop"));
  ASSERT_TRUE(Until([&] { return receiver.Stopped(); }, [&] { PollOwner(); }));
  ASSERT_TRUE(Until([&] { return !leases_.empty(); }, [&] { PollOwner(); }));
  EXPECT_EQ(leases_[0].end, LeaseEnd::kTransferExpired) << leases_[0].reason;
  // The blocks are somebody else's now.
  std::memset(ranks_[0].bytes().data(), 0xee, ranks_[0].bytes().size());
  receiver.Signal(SIGCONT);
  const std::string status = LineOf(&receiver);
  EXPECT_TRUE(status == "status ABORTED" || status == "status DEADLINE_EXCEEDED") << status;
  EXPECT_EQ(LineOf(&receiver), "bytes differ");
}

TEST_P(TwoProcess, AReceiverThatIsKilledInTheMiddleEndsTheLease) {
  Child receiver = OwnAgainstChild(milliseconds(2000), InTheMiddle(GetParam(), "kill"));
  ASSERT_TRUE(Until([&] { return receiver.Dead(); }, [&] { PollOwner(); }));
  ASSERT_TRUE(Until([&] { return !leases_.empty(); }, [&] { PollOwner(); }));
  EXPECT_NE(leases_[0].end, LeaseEnd::kDone);
  EXPECT_NE(leases_[0].reason.find("generation/7/assignment-1"), std::string::npos)
      << leases_[0].reason;
}

INSTANTIATE_TEST_SUITE_P(All, TwoProcess, ::testing::Values("mapped", "ucx"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace baton::transfer
