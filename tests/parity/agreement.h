// How far a backend agrees with the golden file of an independent engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/backend/testing.h"
#include "src/model/model.h"

namespace baton::parity {

struct Sample {
  uint32_t position = 0;
  std::vector<int32_t> ids;
  std::vector<float> logits;
};

struct GoldenPrompt {
  std::vector<int32_t> prompt;
  std::vector<int32_t> greedy;
  std::vector<int32_t> top;         // after each position of prompt + greedy
  std::vector<uint32_t> near_ties;  // positions whose two best logits are closer than 1e-4
  std::vector<Sample> samples;

  // prompt + greedy, cut to `tokens`.
  std::vector<int32_t> Sequence(size_t tokens) const;
};

// The first `count` prompts of golden/model.json. CHECKs that there are as many.
std::vector<GoldenPrompt> GoldenPrompts(size_t count);

struct Agreement {
  size_t prompts = 0;
  size_t same_text = 0;  // prompts whose greedy tokens are the golden ones
  size_t positions = 0;
  size_t same_top = 0;  // positions with the golden top token, near ties counted as the same
  size_t near_ties = 0;
  float logit_difference = 0;  // largest, over the sampled positions and ids

  double same_text_share() const { return static_cast<double>(same_text) / prompts; }
  double same_top_share() const { return static_cast<double>(same_top) / positions; }
  std::string ToString() const;
};

// Teacher forced: the first `tokens` tokens of each sequence in one pass. A prompt has the same
// text when the top token agrees wherever a greedy token was drawn, which by induction is what
// decoding would have drawn.
Agreement CompareForced(backend::Backend& backend, const std::vector<GoldenPrompt>& prompts,
                        size_t tokens);
// Decodes all prompts at once, a token of each in a step, as an engine does.
Agreement CompareDecoded(backend::TestBackend& backend, const std::vector<GoldenPrompt>& prompts);

// Room for `prompts` golden sequences at once.
backend::BackendOptions ParityOptions(backend::DType dtype, size_t prompts);

}  // namespace baton::parity
