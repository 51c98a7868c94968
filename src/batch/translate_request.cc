// OpenAI batch line -> wire::Request.
#include <fmt/format.h>

#include <limits>
#include <optional>

#include "src/batch/json_fields.h"
#include "src/batch/translate.h"
#include "src/wire/codec.h"

namespace baton::batch {
namespace {

using internal::Fields;
using internal::Json;
using internal::ParseJson;

constexpr size_t kCustomIdBytesMax = 512;
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

LineFault NoRequest(std::string code, std::string message, std::string param = "") {
  return {.code = std::move(code),
          .message = std::move(message),
          .param = std::move(param),
          .custom_id = {},
          .body_refused = false};
}

// Fields that change the answer and are not served. A value that asks for nothing is let pass.
constexpr const char* kRefusedFields[] = {"tools",
                                          "functions",
                                          "function_call",
                                          "logit_bias",
                                          "audio",
                                          "suffix",
                                          "guided_json",
                                          "guided_regex",
                                          "guided_choice",
                                          "guided_grammar",
                                          "structured_outputs",
                                          "prompt_logprobs",
                                          "web_search_options",
                                          "prediction"};

bool AsksForNothing(const Json& value) {
  return value.is_null() || (value.is_structured() && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         (value.is_boolean() && !value.get<bool>());
}

void RefuseWhatIsNotServed(Fields& body) {
  constexpr std::string_view kNotServed = "not served";
  for (const char* name : kRefusedFields) {
    const Json* value = body.Find(name);
    if (value != nullptr && !AsksForNothing(*value)) {
      body.Fail(name, kNotServed, "unsupported_parameter");
    }
  }
  if (const Json* choice = body.Find("tool_choice"); choice != nullptr && *choice != "none") {
    body.Fail("tool_choice", kNotServed, "unsupported_parameter");
  }
  if (const Json* format = body.Find("response_format"); format != nullptr) {
    if (!format->is_object() || format->value("type", Json()) != "text") {
      body.Fail("response_format", "only {\"type\":\"text\"} is served", "unsupported_parameter");
    }
  }
  if (body.Flag("stream").value_or(false)) {
    body.Fail("stream", "a batch line cannot stream", "unsupported_parameter");
  }
  for (const char* name : {"n", "best_of"}) {
    if (body.Integer(name, 1, kInt32Max).value_or(1) != 1) {
      body.Fail(name, "only 1 is served; write further lines", "unsupported_parameter");
    }
  }
}

// ------------------------------------------------------------------------------- prompts

// The text of a message: a string, or parts of type text, joined by newlines.
std::optional<std::string> MessageText(const Json& content, const std::string& param,
                                       Fields& body) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array() || content.empty()) {
    body.Fail(param, "must be a string or a list of parts");
    return std::nullopt;
  }
  std::string text;
  for (const Json& part : content) {
    const bool object = part.is_object();
    const Json type = object ? part.value("type", Json()) : Json();
    if (type != "text" || !part.contains("text") || !part["text"].is_string()) {
      body.Fail(param, type.is_string() && type != "text"
                           ? fmt::format("parts of type '{}' are not served",
                                         type.get_ref<const std::string&>().substr(0, 40))
                           : "each part must be {\"type\":\"text\",\"text\":...}");
      return std::nullopt;
    }
    if (!text.empty()) text += '\n';
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

// Null when the message is refused.
Json TranslateMessage(const Json& message, size_t index, Fields& body) {
  const std::string param = fmt::format("messages[{}]", index);
  if (!message.is_object()) {
    body.Fail(param, "must be an object");
    return {};
  }
  const Json role = message.value("role", Json());
  if (role != "system" && role != "developer" && role != "user" && role != "assistant") {
    body.Fail(param + ".role", "must be system, developer, user or assistant");
    return {};
  }
  for (const char* name : {"tool_calls", "function_call", "audio"}) {
    if (message.contains(name) && !AsksForNothing(message[name])) {
      body.Fail(param + "." + name, "not served", "unsupported_parameter");
      return {};
    }
  }
  const auto text = MessageText(message.value("content", Json()), param + ".content", body);
  if (!text) return {};
  // OpenAI's newer name for the same role, which templates do not know.
  return Json{{"role", role == "developer" ? Json("system") : role}, {"content", *text}};
}

void TranslateMessages(Fields& body, wire::Request* request) {
  const Json* messages = body.Find("messages");
  if (messages == nullptr) {
    return body.Fail("messages", "missing", "missing_required_parameter");
  }
  if (!messages->is_array() || messages->empty()) {
    return body.Fail("messages", "must be a list with at least one message");
  }
  Json out = Json::array();
  for (size_t i = 0; i < messages->size() && body.ok(); ++i) {
    out.push_back(TranslateMessage((*messages)[i], i, body));
  }
  // The parser took well-formed UTF-8 only, so nothing is replaced here.
  if (body.ok()) {
    request->chat_messages_json = out.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

bool IsToken(const Json& value) {
  return value.is_number_integer() && value.get<int64_t>() >= 0 &&
         value.get<int64_t>() <= kInt32Max;
}

std::optional<std::vector<int32_t>> TokenList(const Json& value) {
  std::vector<int32_t> tokens;
  for (const Json& token : value) {
    if (!IsToken(token)) return std::nullopt;
    tokens.push_back(token.get<int32_t>());
  }
  return tokens;
}

void TranslatePrompt(Fields& body, wire::Request* request) {
  const Json* prompt = body.Find("prompt");
  if (prompt == nullptr) return body.Fail("prompt", "missing", "missing_required_parameter");
  // ["text"] and [[1, 2]] are OpenAI's lists of prompts; a batch line takes one.
  if (prompt->is_array() && !prompt->empty() && !(*prompt)[0].is_number()) {
    if (prompt->size() > 1) {
      return body.Fail("prompt", "one prompt a line; write further lines", "unsupported_parameter");
    }
    prompt = &(*prompt)[0];
  }
  if (prompt->is_string()) {
    request->prompt_text = prompt->get<std::string>();
  } else if (prompt->is_array()) {
    auto tokens = TokenList(*prompt);
    if (!tokens) return body.Fail("prompt", "must be a string or a list of token ids");
    request->prompt_tokens = std::move(*tokens);
  } else {
    return body.Fail("prompt", "must be a string or a list of token ids");
  }
  if (request->prompt_text.empty() && request->prompt_tokens.empty()) {
    body.Fail("prompt", "empty");
  }
}

// ------------------------------------------------------------------------------- the rest

void TranslateMaxTokens(Fields& body, uint32_t absent, wire::Request* request) {
  const auto older = body.Integer("max_tokens", 1, kInt32Max);
  const auto newer = body.Integer("max_completion_tokens", 1, kInt32Max);
  if (older && newer && *older != *newer) {
    return body.Fail("max_completion_tokens", "contradicts max_tokens");
  }
  request->max_tokens = static_cast<uint32_t>(newer.value_or(older.value_or(absent)));
}

void TranslateSampling(Fields& body, wire::SamplingParams* sampling) {
  const wire::SamplingParams absent;
  sampling->temperature = body.Number("temperature").value_or(absent.temperature);
  sampling->top_p = body.Number("top_p").value_or(absent.top_p);
  sampling->min_p = body.Number("min_p").value_or(absent.min_p);
  sampling->presence_penalty = body.Number("presence_penalty").value_or(absent.presence_penalty);
  sampling->frequency_penalty = body.Number("frequency_penalty").value_or(absent.frequency_penalty);
  sampling->repetition_penalty =
      body.Number("repetition_penalty").value_or(absent.repetition_penalty);
  // Other servers write -1 where 0 is off here.
  const int64_t top_k = body.Integer("top_k", -1, kInt32Max).value_or(0);
  sampling->top_k = static_cast<int32_t>(top_k < 0 ? 0 : top_k);
  if (const auto seed = body.Integer("seed", std::numeric_limits<int64_t>::min(),
                                     std::numeric_limits<int64_t>::max())) {
    sampling->seed = static_cast<uint64_t>(*seed);
  }
}

void TranslateStops(Fields& body, wire::Request* request) {
  if (const Json* stop = body.Find("stop"); stop != nullptr) {
    const Json list = stop->is_array() ? *stop : Json::array({*stop});
    for (const Json& one : list) {
      if (!one.is_string()) return body.Fail("stop", "must be a string or a list of strings");
      request->stop_strings.push_back(one.get<std::string>());
    }
  }
  if (const Json* stop = body.Find("stop_token_ids"); stop != nullptr) {
    auto tokens = stop->is_array() ? TokenList(*stop) : std::nullopt;
    if (!tokens) return body.Fail("stop_token_ids", "must be a list of token ids");
    request->stop_tokens = std::move(*tokens);
  }
  request->ignore_end = body.Flag("ignore_eos").value_or(false);
}

void TranslateLogprobs(Fields& body, Endpoint endpoint, wire::Request* request) {
  constexpr int64_t kTopMax = 20;
  if (endpoint == Endpoint::kCompletions) {
    if (const auto count = body.Integer("logprobs", 0, kTopMax)) {
      request->logprobs = static_cast<uint32_t>(*count);
    }
    return;
  }
  const bool wanted = body.Flag("logprobs").value_or(false);
  const auto top = body.Integer("top_logprobs", 0, kTopMax);
  if (top.value_or(0) > 0 && !wanted) {
    return body.Fail("top_logprobs", "needs \"logprobs\": true");
  }
  if (wanted) request->logprobs = static_cast<uint32_t>(top.value_or(0));
}

// Leaves its complaint, if any, in `fields`.
wire::Request TranslateBody(Endpoint endpoint, const TranslateOptions& options, Fields& fields) {
  wire::Request request;
  RefuseWhatIsNotServed(fields);
  request.model = fields.Text("model").value_or("");
  if (!options.model.empty()) request.model = options.model;
  if (endpoint == Endpoint::kChat) {
    TranslateMessages(fields, &request);
    TranslateMaxTokens(fields, options.chat_max_tokens, &request);
  } else {
    TranslatePrompt(fields, &request);
    TranslateMaxTokens(fields, options.completions_max_tokens, &request);
    request.echo = fields.Flag("echo").value_or(false);
  }
  TranslateSampling(fields, &request.sampling);
  TranslateStops(fields, &request);
  TranslateLogprobs(fields, endpoint, &request);
  return request;
}

// The limits that every request is under, said before anything is sent.
std::optional<LineFault> Validate(wire::Request request) {
  request.id.request_id = "line";
  const Status status = wire::ValidateRequest(request);
  if (status.ok()) return std::nullopt;
  const size_t colon = status.message().find(": ");
  std::string field = status.message().substr(0, colon);
  if (constexpr std::string_view kGroup = "sampling."; field.starts_with(kGroup)) {
    field.erase(0, kGroup.size());
  }
  if (field == "stop_strings") field = "stop";  // OpenAI's name of it
  return LineFault{.code = "invalid_value",
                   .message = fmt::format("'{}'{}", field, status.message().substr(colon)),
                   .param = field,
                   .custom_id = {},
                   .body_refused = true};
}

std::variant<BatchLine, LineFault> TranslateEnvelope(const Json& line, const std::string& custom_id,
                                                     const TranslateOptions& options) {
  const Json method = line.value("method", Json());
  if (method.is_null()) {
    return NoRequest("missing_required_parameter", "'method' is missing", "method");
  }
  if (method != "POST") return NoRequest("invalid_method", "'method' must be POST", "method");
  const Json url = line.value("url", Json());
  if (url.is_null()) return NoRequest("missing_required_parameter", "'url' is missing", "url");
  BatchLine out{.custom_id = custom_id, .endpoint = Endpoint::kChat, .request = {}};
  if (url == "/v1/completions") {
    out.endpoint = Endpoint::kCompletions;
  } else if (url != "/v1/chat/completions") {
    return NoRequest("url_mismatch", "'url' must be /v1/chat/completions or /v1/completions",
                     "url");
  }
  const auto body = line.find("body");
  if (body == line.end() || !body->is_object()) {
    return NoRequest("missing_required_parameter", "'body' is missing or no object", "body");
  }
  Fields fields(*body);
  out.request = TranslateBody(out.endpoint, options, fields);
  if (!fields.ok()) return fields.fault();
  if (auto fault = Validate(out.request)) return *fault;
  return out;
}

}  // namespace

std::variant<BatchLine, LineFault> TranslateLine(std::string_view text,
                                                 const TranslateOptions& options) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return NoRequest("invalid_json_line", "blank line");
  }
  std::string why;
  const std::optional<Json> line = ParseJson(text, &why);
  if (!line) return NoRequest("invalid_json_line", why);
  if (!line->is_object()) {
    return NoRequest("invalid_json_line",
                     fmt::format("a JSON object is needed, not {} {}",
                                 line->is_array() ? "an" : "a", line->type_name()));
  }
  const Json custom_id = line->value("custom_id", Json());
  if (custom_id.is_null()) {
    return NoRequest("missing_required_parameter", "'custom_id' is missing", "custom_id");
  }
  if (!custom_id.is_string() || custom_id.get_ref<const std::string&>().empty() ||
      custom_id.get_ref<const std::string&>().size() > kCustomIdBytesMax) {
    return NoRequest(
        "invalid_value",
        fmt::format("'custom_id' must be a string of 1 to {} bytes", kCustomIdBytesMax),
        "custom_id");
  }
  const std::string& id = custom_id.get_ref<const std::string&>();
  auto translated = TranslateEnvelope(*line, id, options);
  if (auto* fault = std::get_if<LineFault>(&translated)) fault->custom_id = id;
  return translated;
}

}  // namespace baton::batch
