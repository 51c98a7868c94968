#include "tests/parity/agreement.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/backend/probe.h"
#include "src/base/check.h"
#include "tests/parity/golden.h"

namespace baton::parity {
namespace {

constexpr uint32_t kBlockTokens = 16;
constexpr uint32_t kSequenceTokens = 96;

bool IsNearTie(const GoldenPrompt& golden, size_t position) {
  return std::ranges::find(golden.near_ties, position) != golden.near_ties.end();
}

int32_t Top(const float* row, size_t vocab) {
  return static_cast<int32_t>(std::max_element(row, row + vocab) - row);
}

// Counts the positions of one sequence; returns whether each drawn token is the golden one.
bool CompareTops(const GoldenPrompt& golden, const std::vector<float>& logits, size_t tokens,
                 Agreement* agreement) {
  const size_t vocab = logits.size() / tokens;
  bool same_text = true;
  for (size_t position = 0; position < tokens; ++position) {
    const bool tie = IsNearTie(golden, position);
    const bool same = tie || Top(&logits[position * vocab], vocab) == golden.top[position];
    agreement->near_ties += tie ? 1 : 0;
    agreement->same_top += same ? 1 : 0;
    if (position + 1 >= golden.prompt.size() && !same) same_text = false;
  }
  agreement->positions += tokens;
  return same_text;
}

float LogitDifference(const GoldenPrompt& golden, const std::vector<float>& logits, size_t tokens) {
  const size_t vocab = logits.size() / tokens;
  float largest = 0;
  for (const Sample& sample : golden.samples) {
    if (sample.position >= tokens) continue;
    for (size_t i = 0; i < sample.ids.size(); ++i) {
      const float got = logits[sample.position * vocab + static_cast<size_t>(sample.ids[i])];
      const float difference = std::fabs(got - sample.logits[i]);
      // A NaN must not pass as "no larger".
      if (!(difference <= largest)) largest = difference;
      if (std::isnan(difference)) return std::numeric_limits<float>::infinity();
    }
  }
  return largest;
}

}  // namespace

std::vector<int32_t> GoldenPrompt::Sequence(size_t tokens) const {
  std::vector<int32_t> sequence = prompt;
  sequence.insert(sequence.end(), greedy.begin(), greedy.end());
  CHECK(tokens <= sequence.size());
  sequence.resize(tokens);
  return sequence;
}

std::vector<GoldenPrompt> GoldenPrompts(size_t count) {
  const auto golden = ReadGolden("model.json");
  const auto& rows = golden["prompts"];
  CHECK(rows.size() >= count);
  std::vector<GoldenPrompt> prompts;
  for (size_t i = 0; i < count; ++i) {
    const auto& row = rows[i];
    GoldenPrompt& prompt = prompts.emplace_back();
    prompt.prompt = row["prompt"].get<std::vector<int32_t>>();
    prompt.greedy = row["greedy"].get<std::vector<int32_t>>();
    prompt.top = row["top"].get<std::vector<int32_t>>();
    prompt.near_ties = row["near_ties"].get<std::vector<uint32_t>>();
    CHECK(prompt.top.size() == kSequenceTokens);
    for (const auto& sample : row["samples"]) {
      prompt.samples.push_back({sample["position"].get<uint32_t>(),
                                sample["ids"].get<std::vector<int32_t>>(),
                                sample["logits"].get<std::vector<float>>()});
    }
  }
  return prompts;
}

std::string Agreement::ToString() const {
  return "same text " + std::to_string(same_text) + "/" + std::to_string(prompts) +
         ", same top token " + std::to_string(same_top) + "/" + std::to_string(positions) +
         " (near ties " + std::to_string(near_ties) + "), largest logit difference " +
         std::to_string(logit_difference);
}

Agreement CompareForced(backend::Backend& backend, const std::vector<GoldenPrompt>& prompts,
                        size_t tokens) {
  Agreement agreement;
  for (const GoldenPrompt& golden : prompts) {
    const auto logits = backend::ProbeLogits(backend, golden.Sequence(tokens));
    CHECK(logits.ok(), logits.status().ToString());
    ++agreement.prompts;
    agreement.same_text += CompareTops(golden, *logits, tokens, &agreement) ? 1 : 0;
    agreement.logit_difference =
        std::max(agreement.logit_difference, LogitDifference(golden, *logits, tokens));
  }
  return agreement;
}

Agreement CompareDecoded(backend::TestBackend& backend, const std::vector<GoldenPrompt>& prompts) {
  backend::StepInput step;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const AdmissionId admission(i + 1);
    backend->OpenSequence({.admission = admission, .sampling = {}, .history = {}, .logprobs = {}});
    const auto first_block = static_cast<uint32_t>(i * kSequenceTokens / kBlockTokens);
    step.rows.push_back({.admission = admission,
                         .tokens = prompts[i].prompt,
                         .blocks = backend::BlocksFor(kSequenceTokens, kBlockTokens, first_block),
                         .sample = true});
  }
  std::vector<std::vector<int32_t>> drawn(prompts.size());
  for (size_t n = 0; n < prompts[0].greedy.size(); ++n) {
    const backend::StepOutput output = backend.Step(step);
    for (size_t i = 0; i < prompts.size(); ++i) {
      drawn[i].push_back(output.rows[i].token);
      step.rows[i].position += static_cast<uint32_t>(step.rows[i].tokens.size());
      step.rows[i].tokens = {output.rows[i].token};
    }
  }
  Agreement agreement;
  agreement.prompts = prompts.size();
  for (size_t i = 0; i < prompts.size(); ++i) {
    backend->CloseSequence(AdmissionId(i + 1));
    agreement.same_text += drawn[i] == prompts[i].greedy ? 1 : 0;
  }
  return agreement;
}

backend::BackendOptions ParityOptions(backend::DType dtype, size_t prompts) {
  const auto count = static_cast<uint32_t>(prompts);
  return {.dtype = dtype,
          .kv_blocks = count * kSequenceTokens / kBlockTokens,
          .block_tokens = kBlockTokens,
          .threads = 2,
          .limits = {count, std::max(count * 64, kSequenceTokens)}};
}

}  // namespace baton::parity
