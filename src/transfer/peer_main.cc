// The other process of the two-process tests: one rank as owner or receiver, driven through argv
// and standard input, answering in lines on standard output.
//
//   peer_main owner TRANSPORT FOLDER BLOCKS TRANSFER_TIMEOUT_MS
//     "endpoint TEXT", then "ended LEASE END" when lease 1 ends; lives until standard input closes
//   peer_main receiver TRANSPORT FOLDER BLOCKS ENDPOINT
//     "status CODE" and "bytes same|differ", then exits
//
// BATON_FAULTS acts here.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/base/fault.h"
#include "src/transfer/harness.h"
#include "src/transfer/testing.h"

namespace baton::transfer::testing {
namespace {

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

bool InputClosed() {
  char byte = 0;
  return read(STDIN_FILENO, &byte, 1) == 0;
}

int RunOwner(Fabric* fabric, uint32_t blocks, int transfer_timeout_ms) {
  std::vector<TestRank> ranks = fabric->MakeInstance("context", 4, BigLayout(), blocks);
  OfferSpec offer = MakeOffer(1, Blocks(0, blocks));
  offer.transfer_timeout = Millis(transfer_timeout_ms);
  FillBlocks(BigLayout(), 0, offer.blocks, 1, ranks[0].bytes());
  CHECK_OK(ranks[0].pair.source->Offer(offer));
  Say("endpoint " + ranks[0].pair.source->endpoint());
  CHECK(fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK) == 0);
  const bool closed = Until(InputClosed, [&] {
    for (const LeaseEnded& ended : ranks[0].pair.source->Poll()) {
      Say("ended " + std::to_string(ended.lease) + " " +
          std::to_string(static_cast<int>(ended.end)));
    }
  });
  return closed ? 0 : 1;
}

int RunReceiver(Fabric* fabric, uint32_t blocks, const std::string& endpoint) {
  std::vector<TestRank> ranks = fabric->MakeInstance("generation", 7, BigLayout(), blocks);
  const OfferSpec offer = MakeOffer(1, Blocks(0, blocks));
  wire::HandoffDescriptor descriptor = Describe(ranks, offer);
  descriptor.instance = "context";
  descriptor.instance_epoch = InstanceEpoch(4);
  descriptor.endpoints[0].endpoint = endpoint;
  CHECK_OK(ranks[0].pair.sink->Start(MakeFetch(descriptor, offer.blocks)).status());
  std::vector<FetchEnded> ended;
  if (!Until([&] { return !ended.empty(); }, [&] { ended = ranks[0].pair.sink->Poll(); })) {
    return 1;
  }
  const std::string difference =
      CompareBlocks(BigLayout(), 0, offer.blocks, 0, 1, ranks[0].bytes());
  Say("status " + std::string(StatusCodeName(ended[0].status.code())));
  Say(difference.empty() ? "bytes same" : "bytes differ");
  return 0;
}

}  // namespace
}  // namespace baton::transfer::testing

int main(int argc, char** argv) {
  using namespace baton::transfer::testing;  // NOLINT
  CHECK(argc == 6, "see the head of peer_main.cc");
  CHECK_OK(baton::SetFaultPlanFromEnvironment());
  const std::string role = argv[1];
  Fabric fabric(argv[2], argv[3]);
  const auto blocks = static_cast<uint32_t>(std::stoul(argv[4]));
  return role == "owner" ? RunOwner(&fabric, blocks, std::stoi(argv[5]))
                         : RunReceiver(&fabric, blocks, argv[5]);
}
