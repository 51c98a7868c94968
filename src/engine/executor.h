// The engine as a library: enqueue requests, await responses. Usable alone in one process, or
// inside an instance. Owns one engine thread (the leader's loop, design §6): only that thread
// schedules, allocates and frees blocks, through numbered plans that every rank applies in order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/backend/backend.h"
#include "src/base/clock.h"
#include "src/base/ids.h"
#include "src/base/result.h"
#include "src/text/tokenizer.h"
#include "src/transfer/transfer.h"
#include "src/wire/messages.h"

namespace baton::engine {

using ExecId = uint64_t;

struct ExecRequest {
  // kFull: prefill and decode here. kContextOnly: prefill, answer with the first token and a
  // hand-off. kGenerationOnly: pull the hand-off, then decode.
  wire::RequestKind kind = wire::RequestKind::kFull;
  std::vector<int32_t> prompt;
  uint32_t max_tokens = 16;
  wire::SamplingParams sampling;  // seed set by the caller; 0 if not
  std::vector<int32_t> stop_tokens;
  std::vector<std::string> stop_strings;  // need a tokenizer
  std::vector<int32_t> end_ids;           // empty with ignore_end
  std::optional<uint32_t> logprobs;
  std::string cache_salt;
  MonoTime deadline = MonoTime::Max();
  bool stream = false;  // a response per token instead of one at the end
  Attempt attempt{1};
  std::optional<wire::HandoffDescriptor> handoff;  // kGenerationOnly
  std::vector<int32_t> first_tokens;
  std::vector<wire::PositionLogprobs> first_logprobs;
};

struct ExecResponse {
  ExecId id = 0;
  bool final = false;
  // Since the last response of this id. The final response carries every token of a request that
  // does not stream. Tokens of a stop string and the end token are not in `text`.
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<wire::PositionLogprobs> logprobs;
  // Final only:
  wire::FinishReason finish = wire::FinishReason::kNone;
  std::string stop_text;
  std::optional<wire::ErrorInfo> error;
  std::optional<wire::HandoffDescriptor>
      handoff;  // kContextOnly, unless it finished with the first token
  uint32_t prompt_tokens = 0;
  uint32_t cached_tokens = 0;
  wire::Timings timings;
};

struct ExecStats {
  uint64_t steps = 0;     // completed; moves whenever work moves
  uint64_t progress = 0;  // steps, transfers and releases together
  uint32_t running = 0;
  uint32_t queued = 0;
  uint32_t blocks_total = 0;
  uint32_t blocks_free = 0;
  uint32_t blocks_cached = 0;
  uint32_t blocks_used = 0;
  uint64_t prompt_tokens = 0;
  uint64_t generated_tokens = 0;
  uint64_t cache_hit_tokens = 0;
  uint32_t leases_open = 0;
  uint32_t fetches_open = 0;
  std::vector<ExecId> in_step;  // of the step that runs now
};

struct ExecOptions {
  uint32_t queue_max = 1024;       // waiting and running requests together; more are refused
  uint32_t running_max = 64;       // sequences at once
  uint32_t step_tokens_max = 512;  // token budget of a step
  uint32_t steps_ahead = 1;        // steps launched before the previous one's tokens are read
  bool prefix_cache = true;
  Nanos offer_timeout = std::chrono::seconds(20);
  Nanos transfer_timeout = std::chrono::seconds(10);
  Nanos vote_deadline = std::chrono::seconds(5);
  // A step that runs longer has lost its backend; generous, since one on a slow CPU takes minutes.
  Nanos step_deadline = std::chrono::minutes(10);
};

class Executor {
 public:
  // The backend, tokenizer (may be null: no stop strings, no text), transports (may be empty: no
  // hand-off) and clock belong to the caller and outlive the executor. `local` names this instance
  // in descriptors.
  static Result<std::unique_ptr<Executor>> Create(const ExecOptions& options,
                                                  backend::Backend* backend,
                                                  const text::Tokenizer* tokenizer,
                                                  transfer::TransportPair transports,
                                                  const transfer::LocalRank& local, Clock* clock);
  virtual ~Executor() = default;

  // Thread-safe, all of them.
  // kInvalidArgument: the request can never run here (too long, bad token id, ...).
  // kResourceExhausted: the queue is full. kUnavailable: shut down or the backend is lost.
  virtual Result<ExecId> Enqueue(ExecRequest request) = 0;
  // Responses of any request, oldest first; waits for at most `timeout` for the first.
  virtual std::vector<ExecResponse> AwaitAny(Nanos timeout) = 0;
  // Responses of the named ones only; others stay. kDeadlineExceeded is an empty vector.
  virtual std::vector<ExecResponse> Await(std::span<const ExecId> ids, Nanos timeout) = 0;
  // Takes effect at a step boundary, within two steps; the waiter gets a final response. Unknown or
  // finished: nothing happens.
  virtual void Cancel(ExecId id) = 0;
  // Ends the lease of a context request whose hand-off nobody will fetch.
  virtual void WithdrawLease(uint64_t lease) = 0;
  virtual ExecStats stats() const = 0;
  // Not OK once the backend or the engine thread is lost: the instance must exit.
  virtual Status health() const = 0;
  // Refuses new work, cancels what runs unless `drain` finishes first within `timeout`.
  virtual void Shutdown(bool drain, Nanos timeout) = 0;
};

}  // namespace baton::engine
