// Requests of the bus <-> requests of the engine. Pure but for the tokenizer, which is const;
// thread-safe.
#pragma once

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/engine/executor.h"
#include "src/model/config.h"
#include "src/text/tokenizer.h"
#include "src/wire/messages.h"

namespace baton::instance {

// What this instance was asked to do, tokenized and with the deadline on this process's clock.
// Errors are the client's fault (kInvalidArgument) unless the assignment itself is broken
// (kFailedPrecondition: a generation phase without prompt tokens or hand-off).
Result<engine::ExecRequest> ToExecRequest(const wire::Assignment& assignment,
                                          const model::Config& model,
                                          const text::Tokenizer& tokenizer, const Clock& clock);

// Everything an answer accumulated; responses of a streaming request arrive in pieces.
struct Answer {
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<wire::PositionLogprobs> logprobs;
};
void Append(const engine::ExecResponse& response, Answer* answer);

// The event that ends the phase. `final` is the final response, `answer` holds its pieces too.
wire::Event ToEvent(const wire::Assignment& assignment, const std::vector<int32_t>& prompt,
                    const engine::ExecResponse& final, Answer answer,
                    const text::Tokenizer& tokenizer);

// A kFailed event.
wire::Event FailureEvent(const wire::Assignment& assignment, const Status& status,
                         bool client_fault);

}  // namespace baton::instance
