// Logits of whole prompts, for tests that compare backends or check a model against an independent
// implementation. Not used when serving.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/backend/backend.h"

namespace baton::backend {

// Implemented by backends beside Backend.
class LogitsProbe {
 public:
  virtual ~LogitsProbe() = default;
  // Computes `rows` now, as one step that writes KV and samples nothing: logits of every position
  // of every row in order, [tokens][vocab]. Bound by Limits::tokens_max as Submit is; takes no step
  // number. kInvalidArgument as for Submit.
  virtual Result<std::vector<float>> Logits(std::span<const StepRow> rows) = 0;
};

// Logits [tokens.size()][vocab] of one sequence that starts at position 0, computed in chunks of
// `chunk` tokens (0: as many as the backend takes). Uses and overwrites KV blocks 0, 1, ... of the
// pool. kFailedPrecondition when the backend is no LogitsProbe.
Result<std::vector<float>> ProbeLogits(Backend& backend, std::span<const int32_t> tokens,
                                       uint32_t chunk = 0);

}  // namespace baton::backend
