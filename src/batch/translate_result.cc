// wire::ResultRecord -> OpenAI batch line.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "src/batch/json_fields.h"
#include "src/batch/translate.h"

namespace baton::batch {
namespace {

using internal::Json;

constexpr std::string_view kRowIdPrefix = "batch_req_";

std::string Dump(const Json& json) {
  // Bytes of a model need not be UTF-8; a row has to be.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json Row(const LineInfo& line, Json response, Json error) {
  return Json{{"id", RowId(line)},
              {"custom_id", TextOrNull(line.custom_id)},
              {"response", std::move(response)},
              {"error", std::move(error)}};
}

Json Response(const LineInfo& line, int status, Json body) {
  return Json{{"status_code", status}, {"request_id", line.request_id}, {"body", std::move(body)}};
}

// A request that was refused: `error` is null and the body says why, as a server would.
Json Refusal(const LineInfo& line, int status, const std::string& code, const std::string& message,
             const std::string& param) {
  Json error{{"message", fmt::format("line {}: {}", line.number, message)},
             {"type", status < 500 ? "invalid_request_error" : "server_error"},
             {"param", TextOrNull(param)},
             {"code", TextOrNull(code)},
             {"line", line.number}};
  return Row(line, Response(line, status, Json{{"error", std::move(error)}}), Json());
}

// A line that never ran.
Json NeverRan(const LineInfo& line, const std::string& code, const std::string& message) {
  return Row(line, Json(),
             Json{{"code", code},
                  {"message", fmt::format("line {}: {}", line.number, message)},
                  {"line", line.number}});
}

// ------------------------------------------------------------------------------- answers

Json FinishText(wire::FinishReason finish) {
  switch (finish) {
    case wire::FinishReason::kEnd:
    case wire::FinishReason::kStop:
      return "stop";
    case wire::FinishReason::kLength:
      return "length";
    case wire::FinishReason::kNone:
    case wire::FinishReason::kCancelled:
    case wire::FinishReason::kExpired:
    case wire::FinishReason::kError:
      break;
  }
  return {};
}

// A client has no vocabulary, so a token is named by its id, in the form other servers use.
std::string TokenText(int32_t token) { return fmt::format("token_id:{}", token); }

// JSON has no infinity; OpenAI writes -9999 for a token that could not come.
double Finite(float logprob) { return std::isfinite(logprob) ? double{logprob} : -9999.0; }

Json ChatToken(const wire::TokenLogprob& pair) {
  return Json{
      {"token", TokenText(pair.token)}, {"logprob", Finite(pair.logprob)}, {"bytes", Json()}};
}

Json ChatLogprobs(const std::vector<wire::PositionLogprobs>& positions) {
  if (positions.empty()) return {};
  Json content = Json::array();
  for (const wire::PositionLogprobs& position : positions) {
    Json top = Json::array();
    for (const wire::TokenLogprob& pair : position.top) top.push_back(ChatToken(pair));
    Json token = ChatToken(position.chosen);
    token["top_logprobs"] = std::move(top);
    content.push_back(std::move(token));
  }
  return Json{{"content", std::move(content)}};
}

Json CompletionLogprobs(const std::vector<wire::PositionLogprobs>& positions) {
  if (positions.empty()) return {};
  Json tokens = Json::array();
  Json logprobs = Json::array();
  Json tops = Json::array();
  for (const wire::PositionLogprobs& position : positions) {
    tokens.push_back(TokenText(position.chosen.token));
    logprobs.push_back(Finite(position.chosen.logprob));
    Json top = Json::object();
    for (const wire::TokenLogprob& pair : position.top) {
      top[TokenText(pair.token)] = Finite(pair.logprob);
    }
    tops.push_back(std::move(top));
  }
  return Json{{"tokens", std::move(tokens)},
              {"token_logprobs", std::move(logprobs)},
              {"top_logprobs", std::move(tops)},
              {"text_offset", Json::array()}};
}

Json Usage(const wire::Output& output) {
  const uint64_t completion = output.tokens.size();
  return Json{{"prompt_tokens", output.prompt_tokens},
              {"completion_tokens", completion},
              {"total_tokens", output.prompt_tokens + completion},
              {"prompt_tokens_details", Json{{"cached_tokens", output.cached_tokens}}}};
}

Json AnswerBody(const LineInfo& line, const wire::ResultRecord& result, int64_t created_s) {
  const wire::Output& output = result.output;
  const bool chat = line.endpoint == Endpoint::kChat;
  Json choice{{"index", 0}};
  if (chat) {
    choice["message"] = Json{{"role", "assistant"}, {"content", output.text}};
    choice["logprobs"] = ChatLogprobs(output.logprobs);
  } else {
    choice["text"] = output.text;
    choice["logprobs"] = CompletionLogprobs(output.logprobs);
  }
  choice["finish_reason"] = FinishText(output.finish);
  return Json{{"id", (chat ? "chatcmpl-" : "cmpl-") + line.request_id},
              {"object", chat ? "chat.completion" : "text_completion"},
              {"created", created_s},
              {"model", line.model},
              {"choices", Json::array({std::move(choice)})},
              {"usage", Usage(output)}};
}

int HttpStatus(const wire::ErrorInfo& error) {
  switch (error.code) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kFailedPrecondition:
      return error.client_fault || error.code == StatusCode::kInvalidArgument ? 400 : 500;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kAlreadyExists:
      return 409;
    case StatusCode::kResourceExhausted:
      return error.client_fault ? 400 : 429;
    case StatusCode::kUnavailable:
      return 503;
    case StatusCode::kDeadlineExceeded:
      return 504;
    case StatusCode::kOk:
    case StatusCode::kCancelled:
    case StatusCode::kAborted:
    case StatusCode::kDataLoss:
    case StatusCode::kInternal:
      break;
  }
  return error.client_fault ? 400 : 500;
}

Json ErrorRow(const LineInfo& line, const wire::ResultRecord& result) {
  const wire::ErrorInfo error = result.error.value_or(wire::ErrorInfo{});
  std::string code(StatusCodeName(error.code));
  for (char& c : code) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return Refusal(line, HttpStatus(error), code, error.message, "");
}

Json RowOfOutcome(const LineInfo& line, const wire::ResultRecord& result, int64_t created_s) {
  if (result.kind == wire::ResultKind::kConflict) {
    return Refusal(line, 409, "conflict",
                   "this id was used with other content; give the job another name", "");
  }
  switch (result.outcome) {
    case wire::Outcome::kOk:
      return Row(line, Response(line, 200, AnswerBody(line, result, created_s)), Json());
    case wire::Outcome::kCancelled:
      return NeverRan(line, "batch_cancelled", "cancelled before it was finished");
    case wire::Outcome::kExpired:
      return NeverRan(line, "batch_expired", "its deadline passed before it was finished");
    case wire::Outcome::kDead:
      return Refusal(line, 500, "dead_letter",
                     result.error ? result.error->message : "given up after repeated crashes", "");
    case wire::Outcome::kError:
      break;
  }
  return ErrorRow(line, result);
}

// Takes the digits after the last '-' of `text`.
bool TakeNumber(std::string_view* text, int base, uint64_t* number) {
  const size_t dash = text->rfind('-');
  if (dash == std::string_view::npos) return false;
  const std::string_view digits = text->substr(dash + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), *number, base);
  *text = text->substr(0, dash);
  return error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
}

}  // namespace

std::string MakeRequestId(const std::string& job, uint64_t line, uint64_t content_hash) {
  return fmt::format("{}-{}-{:016x}", job, line, content_hash);
}

std::string RowId(const LineInfo& line) { return std::string(kRowIdPrefix) + line.request_id; }

std::string FaultRow(const LineInfo& line, const LineFault& fault) {
  if (fault.body_refused) {
    return Dump(Refusal(line, 400, fault.code, fault.message, fault.param));
  }
  return Dump(NeverRan(line, fault.code, fault.message));
}

ResultRow RowOfResult(const LineInfo& line, const wire::ResultRecord& result, int64_t created_s) {
  const bool ok =
      result.kind != wire::ResultKind::kConflict && result.outcome == wire::Outcome::kOk;
  return {.json = Dump(RowOfOutcome(line, result, created_s)), .is_error = !ok};
}

bool ReadRowName(std::string_view json, RowName* name) {
  std::string why;
  const auto row = internal::ParseJson(json, &why);
  if (!row || !row->is_object()) return false;
  const Json id = row->value("id", Json());
  if (!id.is_string() || !row->contains("response") || !row->contains("error")) return false;
  std::string_view text = id.get_ref<const std::string&>();
  return text.starts_with(kRowIdPrefix) && TakeNumber(&text, 16, &name->content_hash) &&
         TakeNumber(&text, 10, &name->line) && name->line > 0;
}

}  // namespace baton::batch
