// What no model could serve, refused by the name of the field.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/wire/codec.h"
#include "src/wire/utf8.h"

namespace baton::wire {
namespace {

constexpr size_t kNameBytesMax = 256;   // ids, tenant, model, job, salt
constexpr size_t kTopicBytesMax = 249;  // Kafka's own limit
constexpr size_t kCorrelationBytesMax = 1024;
constexpr size_t kTraceparentBytesMax = 128;  // W3C's version 00 has 55
constexpr uint32_t kMaxTokensMax = 1u << 20;
constexpr size_t kStopsMax = 16;
constexpr size_t kStopBytesMax = 256;
constexpr size_t kStopTokensMax = 64;
constexpr uint32_t kLogprobsMax = 20;
constexpr float kTemperatureMax = 100;
constexpr float kRepetitionPenaltyMax = 100;

Status Bad(std::string_view field, std::string_view why) {
  return InvalidArgumentError(fmt::format("{}: {}", field, why));
}

Status CheckText(std::string_view field, std::string_view text, size_t bytes_max) {
  if (text.size() > bytes_max) {
    return Bad(field, fmt::format("{} bytes, at most {}", text.size(), bytes_max));
  }
  if (!IsUtf8(text)) return Bad(field, "not valid UTF-8");
  return OkStatus();
}

// Also false for NaN and the infinities.
bool Within(float value, float low, float high) { return value >= low && value <= high; }

Status CheckRange(std::string_view field, float value, float low, float high) {
  if (Within(value, low, high)) return OkStatus();
  return Bad(field, fmt::format("{} is not within {} and {}", value, low, high));
}

Status CheckTokens(std::string_view field, const std::vector<int32_t>& tokens) {
  for (const int32_t token : tokens) {
    if (token < 0) return Bad(field, fmt::format("token {} is negative", token));
  }
  return OkStatus();
}

Status CheckNames(const Request& request) {
  if (request.id.request_id.empty()) return Bad("id.request_id", "empty");
  BATON_RETURN_IF_ERROR(CheckText("id.request_id", request.id.request_id, kNameBytesMax));
  BATON_RETURN_IF_ERROR(CheckText("id.tenant", request.id.tenant, kNameBytesMax));
  BATON_RETURN_IF_ERROR(CheckText("model", request.model, kNameBytesMax));
  BATON_RETURN_IF_ERROR(CheckText("cache_salt", request.cache_salt, kNameBytesMax));
  BATON_RETURN_IF_ERROR(CheckText("job", request.job, kNameBytesMax));
  BATON_RETURN_IF_ERROR(CheckText("correlation_id", request.correlation_id, kCorrelationBytesMax));
  BATON_RETURN_IF_ERROR(CheckText("traceparent", request.traceparent, kTraceparentBytesMax));
  BATON_RETURN_IF_ERROR(CheckText("reply_topic", request.reply_topic, kTopicBytesMax));
  const bool legal =
      std::all_of(request.reply_topic.begin(), request.reply_topic.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == '-';
      });
  return legal ? OkStatus() : Bad("reply_topic", "not a Kafka topic name");
}

// Only that it is an array: what the messages must hold is for the model's chat template to say.
Status CheckChat(std::string_view json) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = json.find_first_not_of(kSpace);
  const size_t last = json.find_last_not_of(kSpace);
  if (first == std::string_view::npos || json[first] != '[' || json[last] != ']') {
    return Bad("chat_messages_json", "not a JSON array");
  }
  if (json.find_first_not_of(kSpace, first + 1) == last) {
    return Bad("chat_messages_json", "no messages");
  }
  return CheckText("chat_messages_json", json, kMessageBytesMax);
}

Status CheckPrompt(const Request& request) {
  const int kinds = int{!request.prompt_tokens.empty()} + int{!request.prompt_text.empty()} +
                    int{!request.chat_messages_json.empty()};
  if (kinds == 0) return Bad("prompt", "empty");
  if (kinds > 1) {
    return Bad("prompt", "set one of prompt_tokens, prompt_text and chat_messages_json only");
  }
  if (!request.chat_messages_json.empty()) return CheckChat(request.chat_messages_json);
  BATON_RETURN_IF_ERROR(CheckText("prompt_text", request.prompt_text, kMessageBytesMax));
  return CheckTokens("prompt_tokens", request.prompt_tokens);
}

Status CheckLimits(const Request& request) {
  if (request.max_tokens == 0) return Bad("max_tokens", "0; ask for at least 1");
  if (request.max_tokens > kMaxTokensMax) {
    return Bad("max_tokens", fmt::format("{}, at most {}", request.max_tokens, kMaxTokensMax));
  }
  if (request.n != 1) {
    return Bad("n", fmt::format("{}; only 1 is served, send further requests", request.n));
  }
  if (request.logprobs && *request.logprobs > kLogprobsMax) {
    return Bad("logprobs", fmt::format("{}, at most {}", *request.logprobs, kLogprobsMax));
  }
  if (request.deadline_ms < 0) return Bad("deadline_ms", "negative");
  return OkStatus();
}

Status CheckSampling(const SamplingParams& sampling) {
  BATON_RETURN_IF_ERROR(
      CheckRange("sampling.temperature", sampling.temperature, 0, kTemperatureMax));
  if (sampling.top_k < 0) return Bad("sampling.top_k", "negative; 0 is off");
  BATON_RETURN_IF_ERROR(CheckRange("sampling.top_p", sampling.top_p, 0, 1));
  if (sampling.top_p == 0) return Bad("sampling.top_p", "0 leaves no token; 1 is off");
  BATON_RETURN_IF_ERROR(CheckRange("sampling.min_p", sampling.min_p, 0, 1));
  BATON_RETURN_IF_ERROR(CheckRange("sampling.repetition_penalty", sampling.repetition_penalty, 0,
                                   kRepetitionPenaltyMax));
  if (sampling.repetition_penalty == 0) return Bad("sampling.repetition_penalty", "0; 1 is off");
  BATON_RETURN_IF_ERROR(CheckRange("sampling.presence_penalty", sampling.presence_penalty, -2, 2));
  return CheckRange("sampling.frequency_penalty", sampling.frequency_penalty, -2, 2);
}

Status CheckStops(const Request& request) {
  if (request.stop_tokens.size() > kStopTokensMax) {
    return Bad("stop_tokens",
               fmt::format("{}, at most {}", request.stop_tokens.size(), kStopTokensMax));
  }
  BATON_RETURN_IF_ERROR(CheckTokens("stop_tokens", request.stop_tokens));
  if (request.stop_strings.size() > kStopsMax) {
    return Bad("stop_strings",
               fmt::format("{}, at most {}", request.stop_strings.size(), kStopsMax));
  }
  for (const std::string& stop : request.stop_strings) {
    if (stop.empty()) return Bad("stop_strings", "a stop string of length 0");
    BATON_RETURN_IF_ERROR(CheckText("stop_strings", stop, kStopBytesMax));
  }
  if (request.end_id && *request.end_id < 0) return Bad("end_id", "negative");
  return OkStatus();
}

Status CheckHandoff(const Request& request) {
  if (request.kind != RequestKind::kGenerationOnly) {
    if (request.handoff) return Bad("handoff", "only a generation-only request carries one");
    if (!request.first_tokens.empty()) {
      return Bad("first_tokens", "only a generation-only request carries them");
    }
    return OkStatus();
  }
  if (!request.handoff) return Bad("handoff", "missing in a generation-only request");
  if (request.first_tokens.empty()) {
    return Bad("first_tokens", "missing in a generation-only request");
  }
  const HandoffDescriptor& handoff = *request.handoff;
  if (handoff.endpoints.empty()) return Bad("handoff.endpoints", "empty");
  if (handoff.tokens == 0) return Bad("handoff.tokens", "0");
  const uint64_t held = uint64_t{handoff.layout.block_tokens} * handoff.blocks.size();
  if (held < handoff.tokens) {
    return Bad("handoff.blocks", fmt::format("hold {} tokens of {}", held, handoff.tokens));
  }
  return CheckTokens("first_tokens", request.first_tokens);
}

}  // namespace

Status ValidateRequest(const Request& request) {
  BATON_RETURN_IF_ERROR(CheckNames(request));
  BATON_RETURN_IF_ERROR(CheckPrompt(request));
  BATON_RETURN_IF_ERROR(CheckLimits(request));
  BATON_RETURN_IF_ERROR(CheckSampling(request.sampling));
  BATON_RETURN_IF_ERROR(CheckStops(request));
  return CheckHandoff(request);
}

}  // namespace baton::wire
