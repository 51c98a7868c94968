#include "src/instance/translate.h"

#include <utility>

namespace baton::instance {
namespace {

Result<std::vector<int32_t>> Prompt(const wire::Request& request, const model::Config& model,
                                    const text::Tokenizer& tokenizer) {
  if (!request.prompt_tokens.empty()) return request.prompt_tokens;
  if (!request.chat_messages_json.empty()) return tokenizer.EncodeChat(request.chat_messages_json);
  ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                   tokenizer.Encode(request.prompt_text, /*parse_special=*/false));
  if (model.add_bos && model.bos_id >= 0) tokens.insert(tokens.begin(), model.bos_id);
  if (tokens.empty()) return InvalidArgumentError("prompt: it has no tokens; send at least one");
  return tokens;
}

wire::RequestKind KindOf(wire::Phase phase) {
  switch (phase) {
    case wire::Phase::kContext:
      return wire::RequestKind::kContextOnly;
    case wire::Phase::kGeneration:
      return wire::RequestKind::kGenerationOnly;
    case wire::Phase::kFull:
      return wire::RequestKind::kFull;
  }
  return wire::RequestKind::kFull;
}

MonoTime Deadline(int64_t deadline_ms, const Clock& clock) {
  if (deadline_ms == 0) return MonoTime::Max();
  return clock.Now() + (WallTime{deadline_ms} - clock.WallNow());
}

wire::EventKind EndKind(const engine::ExecResponse& final) {
  if (final.finish == wire::FinishReason::kCancelled) return wire::EventKind::kCancelled;
  if (final.finish == wire::FinishReason::kExpired) return wire::EventKind::kExpired;
  if (final.error.has_value()) return wire::EventKind::kFailed;
  return final.handoff.has_value() ? wire::EventKind::kContextDone
                                   : wire::EventKind::kGenerationDone;
}

void FillText(const text::Tokenizer& tokenizer, wire::TokenLogprob* token) {
  Result<std::string> bytes =
      tokenizer.DecodeBytes(std::span(&token->token, 1), /*keep_special=*/true);
  if (bytes.ok()) token->bytes = std::move(*bytes);
}

void FillText(const text::Tokenizer& tokenizer, std::vector<wire::PositionLogprobs>* positions) {
  for (wire::PositionLogprobs& position : *positions) {
    FillText(tokenizer, &position.chosen);
    for (wire::TokenLogprob& token : position.top) FillText(tokenizer, &token);
  }
}

}  // namespace

Result<engine::ExecRequest> ToExecRequest(const wire::Assignment& assignment,
                                          const model::Config& model,
                                          const text::Tokenizer& tokenizer, const Clock& clock) {
  if (!assignment.request.has_value()) {
    return FailedPreconditionError("assignment carries no request");
  }
  const wire::Request& request = *assignment.request;
  if (!request.model.empty() && request.model != model.name) {
    return InvalidArgumentError("model: '" + request.model + "' is not served here; this is '" +
                                model.name + "'");
  }
  const bool generation = assignment.phase == wire::Phase::kGeneration;
  if (generation && (request.prompt_tokens.empty() || !assignment.handoff.has_value() ||
                     assignment.first_tokens.empty())) {
    return FailedPreconditionError(
        "generation phase without prompt tokens, hand-off or first token");
  }
  engine::ExecRequest exec;
  exec.kind = KindOf(assignment.phase);
  ASSIGN_OR_RETURN(exec.prompt, Prompt(request, model, tokenizer));
  exec.max_tokens = request.max_tokens;
  exec.sampling = request.sampling;
  exec.stop_tokens = request.stop_tokens;
  exec.stop_strings = request.stop_strings;
  if (!request.ignore_end) {
    exec.end_ids =
        request.end_id.has_value() ? std::vector<int32_t>{*request.end_id} : model.end_ids;
  }
  exec.logprobs = request.logprobs;
  exec.cache_salt = request.cache_salt;
  exec.deadline = Deadline(request.deadline_ms, clock);
  exec.stream = request.stream;
  exec.attempt = assignment.to.attempt;
  exec.handoff = assignment.handoff;
  exec.first_tokens = assignment.first_tokens;
  exec.first_logprobs = assignment.first_logprobs;
  return exec;
}

void Append(const engine::ExecResponse& response, Answer* answer) {
  answer->tokens.insert(answer->tokens.end(), response.tokens.begin(), response.tokens.end());
  answer->text += response.text;
  answer->logprobs.insert(answer->logprobs.end(), response.logprobs.begin(),
                          response.logprobs.end());
}

wire::Event ToEvent(const wire::Assignment& assignment, const std::vector<int32_t>& prompt,
                    const engine::ExecResponse& final, Answer answer,
                    const text::Tokenizer& tokenizer) {
  wire::Event event;
  event.from = assignment.to;
  event.kind = EndKind(final);
  event.phase = assignment.phase;
  event.timings = final.timings;
  event.error = final.error;
  FillText(tokenizer, &answer.logprobs);
  if (event.kind == wire::EventKind::kContextDone) {
    event.handoff = final.handoff;
    event.prompt_tokens = prompt;
    event.first_tokens = std::move(answer.tokens);
    event.first_logprobs = std::move(answer.logprobs);
  } else {
    event.output.tokens = std::move(answer.tokens);
    event.output.logprobs = std::move(answer.logprobs);
    event.output.text = std::move(answer.text);
    if (assignment.request->echo) {
      Result<std::string> echoed = tokenizer.Decode(prompt, /*keep_special=*/true);
      if (echoed.ok()) event.output.text.insert(0, *echoed);
    }
  }
  event.output.finish = final.finish;
  event.output.stop_text = final.stop_text;
  event.output.prompt_tokens = static_cast<uint32_t>(prompt.size());
  event.output.cached_tokens = final.cached_tokens;
  return event;
}

wire::Event FailureEvent(const wire::Assignment& assignment, const Status& status,
                         bool client_fault) {
  wire::Event event;
  event.from = assignment.to;
  event.kind = wire::EventKind::kFailed;
  event.phase = assignment.phase;
  event.output.finish = wire::FinishReason::kError;
  event.error = wire::ErrorInfo{status.code(), status.message(), client_fault};
  return event;
}

}  // namespace baton::instance
