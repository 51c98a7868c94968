// What a request must satisfy to be taken in, and what the engine makes of it. Pure.
#pragma once

#include "src/engine/executor.h"
#include "src/engine/sequence.h"
#include "src/engine/stop.h"

namespace baton::engine {

// What bounds a request here.
struct RequestLimits {
  uint32_t vocab = 0;
  uint32_t context = 0;  // positions of the longest sequence
  uint32_t block_tokens = 16;
  uint32_t blocks = 0;  // of the pool
  bool has_text = false;
  bool has_transport = false;
};

// kInvalidArgument names the field and what is allowed.
Status CheckRequest(const ExecRequest& request, const RequestLimits& limits);

// Both take a request that passed the check.
uint32_t NewTokens(const ExecRequest& request, const RequestLimits& limits);
Sequence MakeSequence(AdmissionId admission, const ExecRequest& request,
                      const RequestLimits& limits);
StopSpec MakeStopSpec(const ExecRequest& request, const RequestLimits& limits);

}  // namespace baton::engine
