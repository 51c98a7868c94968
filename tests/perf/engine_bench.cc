// Speed of a backend on one model: prompt tokens and decode at batch 1, 8 and 32, beside the memory
// bandwidth that bounds it. One JSON object on stdout; medians of three.
//
//   bazel run //tests/perf:engine_bench -- --dtype bf16 --threads 2
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "src/backend/cpu/kernels.h"
#include "src/backend/factory.h"
#include "src/backend/testing.h"
#include "src/model/loader.h"

namespace baton {
namespace {

using backend::BackendOptions;
using backend::DType;
using backend::StepInput;
using backend::StepRow;
using backend::TestBackend;

constexpr uint32_t kPrompt = 512;
constexpr uint32_t kBlockTokens = 16;
constexpr uint32_t kDecodeSteps = 24;
constexpr uint32_t kBatchMax = 32;
constexpr uint32_t kContext = 128;  // positions that a decoding row sees
constexpr int kRepeats = 3;

// Rates per second of wall clock and per second of processor time: on a shared machine the second
// one still compares builds.
struct Rate {
  double wall = 0;
  double cpu = 0;
};

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Rate RateOf(double tokens, const std::function<void()>& work) {
  const double before = CpuSeconds();
  const double wall = Seconds(work);
  return {tokens / wall, tokens / (CpuSeconds() - before)};
}

Rate Median(const std::function<Rate()>& measure) {
  std::vector<double> wall;
  std::vector<double> cpu;
  for (int i = 0; i < kRepeats; ++i) {
    const Rate rate = measure();
    wall.push_back(rate.wall);
    cpu.push_back(rate.cpu);
  }
  std::sort(wall.begin(), wall.end());
  std::sort(cpu.begin(), cpu.end());
  return {wall[kRepeats / 2], cpu[kRepeats / 2]};
}

std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

// GB/s of reading 256 MiB per thread.
Rate ReadBandwidth(uint32_t threads) {
  constexpr size_t kWords = (256U << 20) / sizeof(uint64_t);
  std::vector<std::vector<uint64_t>> memory(threads);
  for (auto& words : memory) words.assign(kWords, 1);
  std::vector<uint64_t> sums(threads);
  const double gigabytes = static_cast<double>(threads * kWords * sizeof(uint64_t)) / 1e9;
  const Rate rate = RateOf(gigabytes, [&] {
    std::vector<std::thread> workers;
    for (uint32_t t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        uint64_t sum[8] = {};
        for (size_t i = 0; i < kWords; i += 8) {
          for (size_t lane = 0; lane < 8; ++lane) sum[lane] += memory[t][i + lane];
        }
        for (const uint64_t lane : sum) sums[t] += lane;
      });
    }
    for (std::thread& worker : workers) worker.join();
  });
  CHECK(sums[0] == kWords);
  return rate;
}

std::vector<int32_t> SomeTokens(uint32_t count, uint32_t vocab) {
  std::vector<int32_t> tokens(count);
  for (uint32_t i = 0; i < count; ++i) tokens[i] = static_cast<int32_t>((i * 7919 + 13) % vocab);
  return tokens;
}

Rate PromptRate(TestBackend& backend, uint32_t vocab) {
  const std::vector<int32_t> tokens = SomeTokens(kPrompt, vocab);
  const auto blocks = backend::BlocksFor(kPrompt, kBlockTokens);
  return RateOf(kPrompt, [&] { backend.Greedy(tokens, 1, blocks); });
}

Rate DecodeRate(TestBackend& backend, uint32_t batch, uint32_t vocab) {
  StepInput step;
  for (uint32_t i = 0; i < batch; ++i) {
    const AdmissionId admission(i + 1);
    backend->OpenSequence({.admission = admission});
    step.rows.push_back({.admission = admission,
                         .position = kContext,
                         .tokens = SomeTokens(1, vocab),
                         .blocks = backend::BlocksFor(kContext + kDecodeSteps, kBlockTokens,
                                                      i * (kContext + 64) / kBlockTokens),
                         .sample = true});
  }
  const Rate rate = RateOf(batch * kDecodeSteps, [&] {
    for (uint32_t s = 0; s < kDecodeSteps; ++s) {
      backend.Step(step);
      for (StepRow& row : step.rows) {
        ++row.position;
        row.input_from_row = static_cast<int32_t>(&row - step.rows.data());
      }
    }
  });
  for (const StepRow& row : step.rows) backend->CloseSequence(row.admission);
  return rate;
}

int Main(int argc, char** argv) {
  std::string path = backend::kSmolLm2Path;
  std::string name = "cpu";
  std::string dtype = "bf16";
  uint32_t threads = 2;
  CLI::App app("Speed of a backend, as one JSON object");
  app.add_option("--model", path, "GGUF file");
  app.add_option("--backend", name, "reference or cpu");
  app.add_option("--dtype", dtype, "f32 or bf16")->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--threads", threads, "threads of the backend");
  CLI11_PARSE(app, argc, argv);

  auto model = model::LoadModel(path);
  if (!model.ok()) {
    fprintf(stderr, "%s\n", model.status().ToString().c_str());
    return 1;
  }
  const BackendOptions options{.dtype = dtype == "f32" ? DType::kF32 : DType::kBf16,
                               .kv_blocks = kBatchMax * (kContext + 64) / kBlockTokens,
                               .block_tokens = kBlockTokens,
                               .threads = threads,
                               .limits = {kBatchMax, kPrompt}};
  std::optional<TestBackend> backend;
  const double load_s = Seconds([&] { backend.emplace(name, model->get(), options); });
  const uint32_t vocab = (*model)->config().vocab;
  nlohmann::ordered_json out;
  out["model"] = (*model)->config().name;
  out["backend"] = name;
  out["dtype"] = dtype;
  out["threads"] = threads;
  out["cpu"] = CpuName();
  out["kernels"] = backend::cpu::SupportedKernels().front()->name;
  out["load_s"] = load_s;
  PromptRate(*backend, vocab);  // warms caches and clocks
  const auto report = [&](const std::string& what, const Rate& rate) {
    out[what + "_per_s"] = rate.wall;
    out[what + "_per_cpu_s"] = rate.cpu;
  };
  out["prompt_tokens"] = kPrompt;
  report("prompt_tokens", Median([&] { return PromptRate(*backend, vocab); }));
  out["decode_context"] = kContext;
  for (const uint32_t batch : {1U, 8U, 32U}) {
    report("decode_batch" + std::to_string(batch) + "_tokens",
           Median([&] { return DecodeRate(*backend, batch, vocab); }));
  }
  report("memory_read_gb", Median([&] { return ReadBandwidth(threads); }));
  printf("%s\n", out.dump(2).c_str());
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::Main(argc, argv); }
