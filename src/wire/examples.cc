#include "src/wire/examples.h"

namespace baton::wire::examples {
namespace {

const Identity kId{"acme", "request/17%"};

Layout FullLayout() {
  return {.tp = 2,
          .pp = 3,
          .layers_per_stage = {10, 10, 12},
          .layers = 32,
          .heads = 9,
          .kv_heads = 3,
          .head_dim = 64,
          .block_tokens = 32,
          .kv_dtype = "bf16",
          .weights_hash = "9f86d081884c7d65",
          .rope = "base=100000;scale=1"};
}

Address FullAddress() {
  return {.id = kId,
          .attempt = Attempt(2),
          .controller_epoch = ControllerEpoch(7),
          .instance = "generation-0",
          .instance_epoch = InstanceEpoch(11),
          .lease = LeaseNumber(13)};
}

std::vector<PositionLogprobs> FullLogprobs() {
  return {{.chosen = {5, -0.5f, " caf"}, .top = {{5, -0.5f, " caf"}, {6, -1.5f, "\xc3"}}},
          {.chosen = {8, -2.25f, ""}, .top = {}},
          {.chosen = {9, -0.125f, "\xa9"}, .top = {{9, -0.125f, "\xa9"}}}};
}

Output FullOutput() {
  return {.tokens = {5, 8, 9},
          .text = "caf\xc3\xa9",
          .finish = FinishReason::kStop,
          .stop_text = "\n\n",
          .logprobs = FullLogprobs(),
          .prompt_tokens = 40,
          .cached_tokens = 32};
}

Timings FullTimings() {
  return {.queue_ms = 1.5, .context_ms = 20.25, .transfer_ms = 0.75, .generation_ms = 300};
}

ErrorInfo FullError() {
  return {.code = StatusCode::kUnavailable, .message = "rank 3 is away", .client_fault = true};
}

}  // namespace

HandoffDescriptor FullHandoff() {
  return {.instance = "context-1",
          .instance_epoch = InstanceEpoch(5),
          .attempt = Attempt(2),
          .lease = uint64_t{1} << 40,
          .endpoints = {{0, "mapped:/run/kv-0"}, {1, "ucx:00ff"}},
          .layout = FullLayout(),
          .tokens = 40,
          .blocks = {7, 1},
          .block_hashes = {std::string("0123456789abcde\0", 16)}};
}

Request FullRequest() {
  return {.id = kId,
          .kind = RequestKind::kGenerationOnly,
          .model = "SmolLM2-135M-Instruct",
          .prompt_tokens = {1, 2, 300000},
          .prompt_text = "Once upon a time",
          .chat_messages_json = R"([{"role":"user","content":"hi"}])",
          .max_tokens = 64,
          .sampling = {.temperature = 0.75f,
                       .top_k = 40,
                       .top_p = 0.5f,
                       .min_p = 0.0625f,
                       .repetition_penalty = 1.25f,
                       .presence_penalty = -0.5f,
                       .frequency_penalty = 0.25f,
                       .seed = 0},
          .stop_tokens = {2, 0},
          .stop_strings = {"\n\n", "END"},
          .end_id = 0,
          .ignore_end = true,
          .n = 3,
          .logprobs = 0,
          .echo = true,
          .stream = true,
          .priority = Priority::kBatch,
          .deadline_ms = 1'900'000'000'000,
          .cache_salt = "salt",
          .want_provenance = true,
          .job = "nightly",
          .reply_topic = "acme.replies",
          .correlation_id = "c-1",
          .traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
          .handoff = FullHandoff(),
          .first_tokens = {42}};
}

Assignment FullAssignment() {
  return {.to = FullAddress(),
          .kind = AssignmentKind::kRun,
          .phase = Phase::kGeneration,
          .request = FullRequest(),
          .handoff = FullHandoff(),
          .first_tokens = {42},
          .first_logprobs = FullLogprobs()};
}

Grant FullGrant() {
  return {.instance = "context-1",
          .incarnation = "00112233445566778899aabbccddeeff",
          .controller_epoch = ControllerEpoch(7),
          .instance_epoch = InstanceEpoch(5),
          .slot = Slot(3),
          .start_offset = 1234,
          .lease = LeaseNumber(13),
          .refusal = FailedPreconditionError("block size 32 meets 16")};
}

Event FullEvent() {
  return {.from = FullAddress(),
          .kind = EventKind::kFailed,
          .phase = Phase::kContext,
          .handoff = FullHandoff(),
          .prompt_tokens = {1, 2, 3},
          .first_tokens = {42},
          .first_logprobs = FullLogprobs(),
          .output = FullOutput(),
          .error = FullError(),
          .timings = FullTimings()};
}

Registration FullRegistration() {
  return {.instance = "context-1",
          .incarnation = "00112233445566778899aabbccddeeff",
          .role = Role::kGeneration,
          .model = "SmolLM2-135M-Instruct",
          .layout = FullLayout(),
          .max_running = 64,
          .max_bytes = 2u << 20,
          .max_model_tokens = 8192,
          .kv_blocks = 4096,
          .host = "node-3",
          .wall_ms = 1'800'000'000'000};
}

Heartbeat FullHeartbeat() {
  return {.instance = "context-1",
          .incarnation = "00112233445566778899aabbccddeeff",
          .instance_epoch = InstanceEpoch(5),
          .progress = 99,
          .running = 4,
          .queued = 2,
          .blocks_free = 100,
          .blocks_cached = 50,
          .blocks_used = 25,
          .slot_offset = 1240,
          .draining = true,
          .in_step = {kId, {"", "b"}}};
}

ResultRecord FullResult() {
  return {.id = kId,
          .kind = ResultKind::kCopy,
          .outcome = Outcome::kError,
          .attempt = Attempt(3),
          .controller_epoch = ControllerEpoch(7),
          .output = FullOutput(),
          .error = FullError(),
          .timings = FullTimings(),
          .provenance = Provenance{.model = "SmolLM2-135M-Instruct",
                                   .weights_hash = "9f86d081884c7d65",
                                   .seed = 12345678901234567890u,
                                   .context_instance = "context-1",
                                   .generation_instance = "generation-0"},
          .job = "nightly",
          .correlation_id = "c-1",
          .original_partition = 5,
          .original_offset = 77};
}

TokenRecord FullToken() {
  return {.id = kId,
          .attempt = Attempt(3),
          .instance_epoch = InstanceEpoch(11),
          .sequence = 4,
          .tokens = {5, 8},
          .text = " caf"};
}

Control FullControl() {
  return {.kind = ControlKind::kReprioritise,
          .scope = ControlScope::kJob,
          .id = kId,
          .job = "nightly",
          .priority = Priority::kHigh};
}

LedgerRequest FullLedgerRequest() {
  return {.request = FullRequest(),
          .state = RequestState::kParked,
          .attempt = Attempt(3),
          .controller_epoch = ControllerEpoch(7),
          .content_hash = 0xfedcba9876543210u,
          .context_instance = "context-1",
          .context_instance_epoch = InstanceEpoch(5),
          .context_lease = LeaseNumber(12),
          .generation_instance = "generation-0",
          .generation_instance_epoch = InstanceEpoch(11),
          .generation_lease = LeaseNumber(13),
          .handoff = FullHandoff(),
          .prompt_tokens = {1, 2, 3},
          .first_tokens = {42},
          .first_logprobs = FullLogprobs(),
          .failures = 2,
          .deaths = 1,
          .alone = true,
          .cancel_requested = true,
          .parked_until_ms = 1'800'000'000'500,
          .source_topic = "baton.requests.batch",
          .source_partition = 2,
          .source_offset = 900,
          .received_ms = 1'800'000'000'000,
          .outcome = Outcome::kDead,
          .result_partition = 5,
          .result_offset = 77,
          .timings = FullTimings(),
          .cached_tokens = 32};
}

LedgerPosition FullLedgerPosition() {
  return {.topic = "baton.events",
          .partition = 3,
          .offset = 1'000'000'000'000,
          .controller_epoch = ControllerEpoch(7)};
}

LedgerClaim FullLedgerClaim() {
  return {.controller_epoch = ControllerEpoch(7),
          .uuid = "0f0e0d0c",
          .host = "node-1",
          .wall_ms = 1'800'000'000'000};
}

LedgerInstance FullLedgerInstance() {
  return {.registration = FullRegistration(),
          .instance_epoch = InstanceEpoch(5),
          .slot = Slot(3),
          .lease = LeaseNumber(13),
          .start_offset = 1234,
          .controller_epoch = ControllerEpoch(7),
          .dead = true};
}

DeadLetter FullDeadLetter() {
  return {.stage = "verifier",
          .code = "INVALID_ARGUMENT",
          .message = "verifier: not a well-formed BREQ",
          .topic = "baton.requests.normal",
          .partition = 1,
          .offset = 55,
          .key = std::string("\xff\x00k", 3),
          .value = std::string("\x00\xfe\xff", 3),
          .headers = {{"tenant", "acme"}, {"", std::string("\x00", 1)}},
          .id = kId,
          .controller_epoch = ControllerEpoch(7)};
}

}  // namespace baton::wire::examples
