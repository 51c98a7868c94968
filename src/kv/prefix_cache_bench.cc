// Cost of a prefix lookup per 16-token block, pinning and the result's memory included.
//   bazel run -c opt //src/kv:prefix_cache_bench
#include <benchmark/benchmark.h>

#include "src/base/rng.h"
#include "src/kv/prefix_cache.h"

namespace baton::kv {
namespace {

constexpr uint32_t kBlocks = 100'000;
constexpr size_t kPromptBlocks = 128;  // a prompt of 2k tokens

// A pool full of cached prompts; each lookup asks for another one, so that the index is not hot.
void BM_Lookup(benchmark::State& state) {
  PrefixCacheOptions options;
  options.blocks = kBlocks;
  options.model = "bench";
  PrefixCache cache(options);
  Rng rng(1);
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i + 1 < kBlocks / (kPromptBlocks + 1); ++i) {
    std::vector<int32_t> prompt(kPromptBlocks * 16 + 1);
    for (int32_t& token : prompt) token = static_cast<int32_t>(rng.Below(49152));
    PrefixMatch match = cache.Lookup(prompt, "");
    cache.Allocate(kPromptBlocks + 1, &match.blocks);
    cache.Index(prompt, match.blocks, &match.cursor);
    cache.Release(match.blocks);
    prompts.push_back(std::move(prompt));
  }
  size_t at = 0;
  size_t hits = 0;
  size_t lookups = 0;
  std::vector<PrefixMatch> matches;
  for (auto _ : state) {
    for (size_t i = 0; i < 64; ++i) {
      matches.push_back(cache.Lookup(prompts[at], ""));
      hits += matches.back().blocks.size();
      at = (at + 7) % prompts.size();
      ++lookups;
    }
    state.PauseTiming();
    for (const PrefixMatch& match : matches) cache.Release(match.blocks);
    matches.clear();
    state.ResumeTiming();
  }
  if (hits != lookups * kPromptBlocks) state.SkipWithError("a lookup missed");
  state.counters["ns_per_block"] = benchmark::Counter(
      static_cast<double>(hits) * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_Lookup);

}  // namespace
}  // namespace baton::kv

BENCHMARK_MAIN();
