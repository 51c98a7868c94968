// Speed of a backend on one model: prompt tokens and decode at batch 1, 8 and 32, beside the memory
// bandwidth that bounds it. One JSON object on stdout; medians of three.
//
//   bazel run //tests/perf:engine_bench -- --dtype bf16 --threads 2
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
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

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(const std::function<double()>& measure) {
  std::vector<double> values;
  for (int i = 0; i < kRepeats; ++i) values.push_back(measure());
  std::sort(values.begin(), values.end());
  return values[kRepeats / 2];
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
double ReadBandwidth(uint32_t threads) {
  constexpr size_t kWords = (256U << 20) / sizeof(uint64_t);
  std::vector<std::vector<uint64_t>> memory(threads);
  for (auto& words : memory) words.assign(kWords, 1);
  std::vector<uint64_t> sums(threads);
  const double seconds = Seconds([&] {
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
  return static_cast<double>(threads * kWords * sizeof(uint64_t)) / seconds / 1e9;
}

std::vector<int32_t> SomeTokens(uint32_t count, uint32_t vocab) {
  std::vector<int32_t> tokens(count);
  for (uint32_t i = 0; i < count; ++i) tokens[i] = static_cast<int32_t>((i * 7919 + 13) % vocab);
  return tokens;
}

double PromptRate(TestBackend& backend, uint32_t vocab) {
  const std::vector<int32_t> tokens = SomeTokens(kPrompt, vocab);
  const auto blocks = backend::BlocksFor(kPrompt, kBlockTokens);
  return kPrompt / Seconds([&] { backend.Greedy(tokens, 1, blocks); });
}

double DecodeRate(TestBackend& backend, uint32_t batch, uint32_t vocab) {
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
  const double seconds = Seconds([&] {
    for (uint32_t s = 0; s < kDecodeSteps; ++s) {
      backend.Step(step);
      for (StepRow& row : step.rows) {
        ++row.position;
        row.input_from_row = static_cast<int32_t>(&row - step.rows.data());
      }
    }
  });
  for (const StepRow& row : step.rows) backend->CloseSequence(row.admission);
  return batch * kDecodeSteps / seconds;
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
  out["prompt_tokens"] = kPrompt;
  out["prompt_tokens_per_s"] = Median([&] { return PromptRate(*backend, vocab); });
  out["decode_context"] = kContext;
  for (const uint32_t batch : {1U, 8U, 32U}) {
    out["decode_batch" + std::to_string(batch) + "_tokens_per_s"] =
        Median([&] { return DecodeRate(*backend, batch, vocab); });
  }
  out["memory_read_gb_per_s"] = Median([&] { return ReadBandwidth(threads); });
  printf("%s\n", out.dump(2).c_str());
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::Main(argc, argv); }
