// Bytes per second of one hand-off at a time between two ranks, by transport, against memcpy of as
// many bytes between the same kind of memory in the same run.
//
//   bazel run //src/transfer:transfer_bench
//
// In one process on one thread the figures hold the work of both sides. `mapped` and `memcpy` touch
// the same bytes once, so their ratio is what the protocol costs; `ucx` copies, checks and crosses
// a socket.
#include <benchmark/benchmark.h>

#include <cstring>
#include <map>
#include <memory>

#include "src/base/check.h"
#include "src/transfer/harness.h"
#include "src/transfer/layout.h"
#include "src/transfer/testing.h"

namespace baton::transfer {
namespace {

using testing::BigLayout;
using testing::Blocks;
using testing::Fabric;
using testing::TestRank;

constexpr uint32_t kBlocks = 512;  // 64 MiB: beyond the last level cache's reach

struct Bench {
  explicit Bench(const std::string& transport)
      : fabric(transport),
        owners(fabric.MakeInstance("context", 1, BigLayout(), kBlocks)),
        receivers(fabric.MakeInstance("generation", 1, BigLayout(), kBlocks)) {
    std::memset(owners[0].bytes().data(), 0x5a, owners[0].bytes().size());
    std::memset(receivers[0].bytes().data(), 0xa5, receivers[0].bytes().size());
  }

  void HandOff(uint32_t blocks) {
    const OfferSpec offer = testing::MakeOffer(++lease, Blocks(0, blocks));
    CHECK_OK(owners[0].pair.source->Offer(offer));
    CHECK_OK(
        receivers[0]
            .pair.sink->Start(testing::MakeFetch(testing::Describe(owners, offer), offer.blocks))
            .status());
    for (bool ended = false; !ended;) {
      owners[0].pair.source->Poll();
      for (const FetchEnded& end : receivers[0].pair.sink->Poll()) {
        CHECK_OK(end.status);
        ended = true;
      }
    }
  }

  Fabric fabric;
  std::vector<TestRank> owners;
  std::vector<TestRank> receivers;
  uint64_t lease = 0;
};

Bench& TheBench(const std::string& transport) {
  static std::map<std::string, std::unique_ptr<Bench>> benches;
  std::unique_ptr<Bench>& bench = benches[transport];
  if (bench == nullptr) bench = std::make_unique<Bench>(transport);
  return *bench;
}

void HandOff(benchmark::State& state, const char* transport) {
  Bench& bench = TheBench(transport);
  const auto blocks = static_cast<uint32_t>(state.range(0));
  for (auto _ : state) bench.HandOff(blocks);
  state.SetBytesProcessed(state.iterations() * blocks *
                          static_cast<int64_t>(testing::kBigBlockBytes));
}

// Between the two pools that the mapped transport uses.
void Memcpy(benchmark::State& state) {
  Bench& bench = TheBench("mapped");
  const size_t bytes = static_cast<size_t>(state.range(0)) * testing::kBigBlockBytes;
  for (auto _ : state) {
    std::memcpy(bench.receivers[0].bytes().data(), bench.owners[0].bytes().data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

BENCHMARK(Memcpy)->Arg(8)->Arg(64)->Arg(kBlocks)->UseRealTime();
BENCHMARK_CAPTURE(HandOff, mapped, "mapped")->Arg(1)->Arg(8)->Arg(64)->Arg(kBlocks)->UseRealTime();
BENCHMARK_CAPTURE(HandOff, ucx, "ucx")->Arg(1)->Arg(8)->Arg(64)->Arg(kBlocks)->UseRealTime();

}  // namespace
}  // namespace baton::transfer

BENCHMARK_MAIN();
