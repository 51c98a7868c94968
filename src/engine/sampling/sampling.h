// Draws tokens from logits on the host. Backends that sample on the CPU keep one Sampler per open
// sequence; a backend that samples on a device is tested against this one.
//
// Order: repetition, presence and frequency penalty; temperature; min-p; top-k; top-p. The draw
// depends on (logits, params, history, seed, position) and on nothing else, so that a request that
// was split between two instances draws what an unsplit run draws.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/backend/backend.h"
#include "src/wire/messages.h"

namespace baton::engine {

// Uniform in [0, 1) for one position of one seed; a counter-based generator (two rounds of the
// splitmix64 finaliser), so no state has to travel with a hand-off.
double UniformAt(uint64_t seed, uint32_t position);

// How often each token occurred. Repetition penalty looks at prompt and output, presence and
// frequency penalty at output alone, as OpenAI's API words them.
struct TokenCounts {
  struct Count {
    uint32_t prompt = 0;
    uint32_t output = 0;
  };
  std::unordered_map<int32_t, Count> counts;
};

// The pure part. `uniform` in [0, 1) decides a draw; greedy (temperature 0) ignores it, equal
// logits give the lowest id. NaN counts as -inf. -1 when no logit is above -inf: the caller ends
// that request. `scratch` is reused memory of any content.
int32_t SampleToken(std::span<const float> logits, const wire::SamplingParams& params,
                    const TokenCounts& counts, double uniform, std::vector<float>* scratch);

// Log-softmax of the raw logits (before penalties and temperature): `chosen`, then the `top` most
// likely ones, best first, equal ones by lowest id.
wire::PositionLogprobs LogprobsOf(std::span<const float> logits, int32_t chosen, uint32_t top);

// State of one sequence from OpenSequence to CloseSequence. One owner thread.
class Sampler {
 public:
  explicit Sampler(const backend::SequenceSpec& spec);

  // The token for `position` (of the drawn token), -1 when no logit is usable. Records it in the
  // history. Fills `logprobs` when the sequence asked for them and the pointer is not null.
  int32_t Sample(std::span<const float> logits, uint32_t position,
                 std::optional<wire::PositionLogprobs>* logprobs);

 private:
  wire::SamplingParams params_;
  std::optional<uint32_t> top_logprobs_;
  TokenCounts counts_;
  bool penalties_;
  std::vector<float> scratch_;
};

}  // namespace baton::engine
