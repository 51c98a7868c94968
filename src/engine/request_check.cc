#include "src/engine/request_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace baton::engine {
namespace {

uint32_t Blocks(uint64_t positions, const RequestLimits& limits) {
  return static_cast<uint32_t>((positions + limits.block_tokens - 1) / limits.block_tokens);
}

// Positions of KV that the request can ever hold: the last token drawn is never computed.
uint32_t WorstPositions(const ExecRequest& request, const RequestLimits& limits) {
  const auto prompt = static_cast<uint32_t>(request.prompt.size());
  if (request.kind == wire::RequestKind::kContextOnly) return prompt;
  return prompt + NewTokens(request, limits) - 1;
}

Status CheckTokens(const std::vector<int32_t>& tokens, const char* field,
                   const RequestLimits& limits) {
  for (const int32_t token : tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= limits.vocab) {
      return InvalidArgumentError(
          fmt::format("{}: token {} is outside the vocabulary of {}", field, token, limits.vocab));
    }
  }
  return OkStatus();
}

Status CheckSampling(const wire::SamplingParams& p) {
  const auto bad = [](const char* field, double value, const char* allowed) {
    return InvalidArgumentError(fmt::format("{} is {}; allowed: {}", field, value, allowed));
  };
  // Written so that NaN fails each of them.
  if (!(p.temperature >= 0 && std::isfinite(p.temperature))) {
    return bad("temperature", p.temperature, "0 or more");
  }
  if (p.top_k < 0) return bad("top_k", p.top_k, "0 (off) or more");
  if (!(p.top_p > 0 && p.top_p <= 1)) return bad("top_p", p.top_p, "above 0, at most 1");
  if (!(p.min_p >= 0 && p.min_p <= 1)) return bad("min_p", p.min_p, "0 to 1");
  if (!(p.repetition_penalty > 0 && std::isfinite(p.repetition_penalty))) {
    return bad("repetition_penalty", p.repetition_penalty, "above 0");
  }
  if (!std::isfinite(p.presence_penalty)) {
    return bad("presence_penalty", p.presence_penalty, "a finite number");
  }
  if (!std::isfinite(p.frequency_penalty)) {
    return bad("frequency_penalty", p.frequency_penalty, "a finite number");
  }
  return OkStatus();
}

Status CheckHandoff(const ExecRequest& request, const RequestLimits& limits) {
  if (!limits.has_transport) {
    return InvalidArgumentError("this instance has no transport, so no hand-off");
  }
  if (request.kind == wire::RequestKind::kContextOnly) return OkStatus();
  if (!request.handoff.has_value()) {
    return InvalidArgumentError("a generation request needs a hand-off");
  }
  const wire::HandoffDescriptor& handoff = *request.handoff;
  if (handoff.tokens != request.prompt.size()) {
    return InvalidArgumentError(fmt::format("the hand-off holds {} positions, the prompt has {}",
                                            handoff.tokens, request.prompt.size()));
  }
  if (handoff.blocks.size() != Blocks(handoff.tokens, limits)) {
    return InvalidArgumentError(fmt::format("the hand-off has {} blocks for {} positions of {}",
                                            handoff.blocks.size(), handoff.tokens,
                                            limits.block_tokens));
  }
  if (request.first_tokens.empty()) {
    return InvalidArgumentError("a generation request needs the first token");
  }
  if (request.first_tokens.size() > NewTokens(request, limits)) {
    return InvalidArgumentError(fmt::format("{} first tokens, at most {} may be generated",
                                            request.first_tokens.size(),
                                            NewTokens(request, limits)));
  }
  return CheckTokens(request.first_tokens, "first_tokens", limits);
}

}  // namespace

Status CheckRequest(const ExecRequest& request, const RequestLimits& limits) {
  if (request.prompt.empty()) return InvalidArgumentError("the prompt is empty");
  BATON_RETURN_IF_ERROR(CheckTokens(request.prompt, "prompt", limits));
  if (request.max_tokens == 0) return InvalidArgumentError("max_tokens is 0; allowed: 1 or more");
  if (request.prompt.size() >= limits.context) {
    return InvalidArgumentError(
        fmt::format("the prompt has {} tokens; with one to generate the model takes at most {}",
                    request.prompt.size(), limits.context - 1));
  }
  BATON_RETURN_IF_ERROR(CheckSampling(request.sampling));
  if (!request.stop_strings.empty() && !limits.has_text) {
    return InvalidArgumentError("stop strings need a tokenizer, and there is none");
  }
  for (const std::string& stop : request.stop_strings) {
    if (stop.empty()) return InvalidArgumentError("a stop string is empty");
  }
  if (request.logprobs.has_value() && *request.logprobs > limits.vocab) {
    return InvalidArgumentError(fmt::format("logprobs is {}; allowed: 0 to the vocabulary's {}",
                                            *request.logprobs, limits.vocab));
  }
  if (request.kind != wire::RequestKind::kFull) {
    BATON_RETURN_IF_ERROR(CheckHandoff(request, limits));
  }
  const uint32_t worst = Blocks(WorstPositions(request, limits), limits);
  if (worst > limits.blocks) {
    return InvalidArgumentError(
        fmt::format("the request may need {} KV blocks of {} tokens; the pool has {}", worst,
                    limits.block_tokens, limits.blocks));
  }
  return OkStatus();
}

uint32_t NewTokens(const ExecRequest& request, const RequestLimits& limits) {
  return std::min(request.max_tokens,
                  limits.context - static_cast<uint32_t>(request.prompt.size()));
}

Sequence MakeSequence(AdmissionId admission, const ExecRequest& request,
                      const RequestLimits& limits) {
  Sequence sequence;
  sequence.admission = admission;
  sequence.tokens = request.prompt;
  sequence.prompt_tokens = static_cast<uint32_t>(request.prompt.size());
  sequence.max_new = NewTokens(request, limits);
  sequence.sampling = request.sampling;
  if (!sequence.sampling.seed.has_value()) sequence.sampling.seed = 0;
  sequence.logprobs = request.logprobs;
  sequence.salt = request.cache_salt;
  sequence.deadline = request.deadline;
  sequence.worst_blocks = Blocks(WorstPositions(request, limits), limits);
  if (request.kind == wire::RequestKind::kContextOnly) sequence.max_new = 1;
  if (request.kind == wire::RequestKind::kGenerationOnly) {
    sequence.handoff = request.handoff;
    sequence.tokens.insert(sequence.tokens.end(), request.first_tokens.begin(),
                           request.first_tokens.end());
  }
  return sequence;
}

StopSpec MakeStopSpec(const ExecRequest& request, const RequestLimits& limits) {
  return {.end_ids = request.end_ids,
          .stop_tokens = request.stop_tokens,
          .stop_strings = request.stop_strings,
          .max_new = NewTokens(request, limits)};
}

}  // namespace baton::engine
