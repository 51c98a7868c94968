#include "src/batch/translate.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "src/wire/codec.h"

namespace baton::batch {
namespace {

using Json = nlohmann::json;

std::string Line(const std::string& url, const std::string& body) {
  return R"({"custom_id":"a","method":"POST","url":")" + url + R"(","body":)" + body + "}";
}
// `fields` follow a good messages field.
std::string Chat(const std::string& fields = "") {
  return Line("/v1/chat/completions",
              R"({"model":"m","messages":[{"role":"user","content":"hi"}])" + fields + "}");
}
std::string Completion(const std::string& fields) {
  return Line("/v1/completions", R"({"model":"m")" + fields + "}");
}

BatchLine MustTranslate(const std::string& line, const TranslateOptions& options = {}) {
  auto translated = TranslateLine(line, options);
  if (const auto* fault = std::get_if<LineFault>(&translated)) {
    ADD_FAILURE() << line << ": " << fault->code << ": " << fault->message;
    return {};
  }
  return std::get<BatchLine>(std::move(translated));
}

LineFault MustRefuse(const std::string& line) {
  auto translated = TranslateLine(line, {});
  if (std::holds_alternative<BatchLine>(translated)) {
    ADD_FAILURE() << "accepted: " << line.substr(0, 300);
    return {};
  }
  return std::get<LineFault>(std::move(translated));
}

void ExpectBodyRefused(const std::string& param, const std::string& line) {
  const LineFault fault = MustRefuse(line);
  EXPECT_TRUE(fault.body_refused) << line;
  EXPECT_EQ(fault.param, param) << fault.message;
  EXPECT_EQ(fault.custom_id, "a");
  EXPECT_NE(fault.message.find("'" + param + "'"), std::string::npos) << fault.message;
}

// ------------------------------------------------------------------------------- lines

TEST(TranslateLineTest, WhatIsNoRequestIsRefusedByOpenAisCodes) {
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  for (const std::string& line :
       {std::string(), std::string(" \t"), std::string("null"), std::string("[1]"),
        std::string("\"text\""), std::string("17"), std::string("{\"custom_id\":"),
        std::string("{\"custom_id\":\"\xff\"}"), std::string("{\"a\":1e999}"), std::string("{} {}"),
        std::string("{\"a\":\"\\ud800\"}"), "{\"a\":" + deep + "}",
        std::string("{\"a\":\"\0\"}", 9)}) {
    EXPECT_EQ(MustRefuse(line).code, "invalid_json_line") << line.substr(0, 40);
    EXPECT_FALSE(MustRefuse(line).body_refused);
  }
  EXPECT_EQ(MustRefuse("").message, "blank line");
  EXPECT_NE(MustRefuse("{\"a\":nope}").message.find("at byte 7"), std::string::npos)
      << MustRefuse("{\"a\":nope}").message;
  EXPECT_NE(MustRefuse("{\"a\":" + deep + "}").message.find("nested"), std::string::npos);
}

TEST(TranslateLineTest, EachPartOfTheEnvelopeIsNeeded) {
  const auto refuse = [](const std::string& line) {
    const LineFault fault = MustRefuse(line);
    EXPECT_FALSE(fault.body_refused);
    return fault.code + " " + fault.param;
  };
  EXPECT_EQ(refuse("{}"), "missing_required_parameter custom_id");
  EXPECT_EQ(refuse(R"({"custom_id":""})"), "invalid_value custom_id");
  EXPECT_EQ(refuse(R"({"custom_id":7})"), "invalid_value custom_id");
  EXPECT_EQ(refuse(R"({"custom_id":"a"})"), "missing_required_parameter method");
  EXPECT_EQ(refuse(R"({"custom_id":"a","method":"GET"})"), "invalid_method method");
  EXPECT_EQ(refuse(R"({"custom_id":"a","method":"POST"})"), "missing_required_parameter url");
  EXPECT_EQ(refuse(Line("/v1/embeddings", "{}")), "url_mismatch url");
  EXPECT_EQ(refuse(Line("/v1/completions", "[]")), "missing_required_parameter body");
  EXPECT_EQ(MustRefuse(Line("/v1/embeddings", "{}")).custom_id, "a");
}

// ------------------------------------------------------------------------------- bodies

TEST(TranslateLineTest, EveryServedFieldOfAChatArrives) {
  const BatchLine line = MustTranslate(Chat(
      R"(,"max_completion_tokens":7,"temperature":0.5,"top_p":0.25,"top_k":9,"min_p":0.125,"seed":-1)"
      R"(,"stop":["x","y"],"presence_penalty":1.5,"frequency_penalty":-2,"repetition_penalty":1.25)"
      R"(,"logprobs":true,"top_logprobs":3,"ignore_eos":true,"stop_token_ids":[2],"user":"u","n":1)"));
  wire::Request expected;
  expected.model = "m";
  expected.chat_messages_json = R"([{"role":"user","content":"hi"}])";
  expected.max_tokens = 7;
  expected.sampling = {.temperature = 0.5f,
                       .top_k = 9,
                       .top_p = 0.25f,
                       .min_p = 0.125f,
                       .repetition_penalty = 1.25f,
                       .presence_penalty = 1.5f,
                       .frequency_penalty = -2,
                       .seed = UINT64_MAX};
  expected.stop_strings = {"x", "y"};
  expected.stop_tokens = {2};
  expected.ignore_end = true;
  expected.logprobs = 3;
  EXPECT_TRUE(line.request == expected);
  const BatchLine completion =
      MustTranslate(Completion(R"(,"prompt":"x","echo":true,"logprobs":2,"stop":"s","top_k":-1)"));
  EXPECT_TRUE(completion.request.echo);
  EXPECT_EQ(completion.request.logprobs, 2u);
  EXPECT_EQ(completion.request.stop_strings, std::vector<std::string>{"s"});
  EXPECT_EQ(completion.request.sampling.top_k, 0);
}

TEST(TranslateLineTest, AbsentAndNullMeanTheDefault) {
  const BatchLine line = MustTranslate(
      Chat(R"(,"max_tokens":null,"temperature":null,"stop":null,"logprobs":null,"seed":null)"));
  wire::Request expected;
  expected.model = "m";
  expected.chat_messages_json = R"([{"role":"user","content":"hi"}])";
  expected.max_tokens = 512;
  EXPECT_TRUE(line.request == expected);
  EXPECT_EQ(line.custom_id, "a");
  EXPECT_EQ(line.endpoint, Endpoint::kChat);
  EXPECT_EQ(MustTranslate(Completion(R"(,"prompt":"x")")).request.max_tokens, 16u);
  EXPECT_EQ(MustTranslate(Chat(), {.chat_max_tokens = 5, .model = "other"}).request.max_tokens, 5u);
  EXPECT_EQ(MustTranslate(Chat(), {.chat_max_tokens = 5, .model = "other"}).request.model, "other");
}

TEST(TranslateLineTest, MessagesBecomeRoleAndPlainText) {
  const BatchLine line = MustTranslate(Line(
      "/v1/chat/completions",
      R"({"messages":[{"role":"developer","content":"d"},)"
      R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"n"},)"
      R"({"role":"assistant","content":"\u00e9"}]})"));
  EXPECT_EQ(line.request.chat_messages_json,
            R"([{"role":"system","content":"d"},{"role":"user","content":"a\nb"},)"
            "{\"role\":\"assistant\",\"content\":\"\xc3\xa9\"}]");
}

TEST(TranslateLineTest, PromptsComeAsTextOrTokens) {
  EXPECT_EQ(MustTranslate(Completion(R"(,"prompt":"x")")).request.prompt_text, "x");
  EXPECT_EQ(MustTranslate(Completion(R"(,"prompt":["x"])")).request.prompt_text, "x");
  const std::vector<int32_t> tokens = {1, 2};
  EXPECT_EQ(MustTranslate(Completion(R"(,"prompt":[1,2])")).request.prompt_tokens, tokens);
  EXPECT_EQ(MustTranslate(Completion(R"(,"prompt":[[1,2]])")).request.prompt_tokens, tokens);
  for (const char* prompt : {R"("")", "[]", "[[]]", R"(["a","b"])", "[[1],[2]]", "[-1]", "[1.5]",
                             "[1,\"a\"]", "7", "{}", "[4294967296]"}) {
    ExpectBodyRefused("prompt", Completion(std::string(",\"prompt\":") + prompt));
  }
  ExpectBodyRefused("prompt", Completion(""));
}

TEST(TranslateLineTest, MessagesThatAreNoneAreRefused) {
  const auto chat = [](const std::string& messages) {
    return Line("/v1/chat/completions", "{\"messages\":" + messages + "}");
  };
  ExpectBodyRefused("messages", Line("/v1/chat/completions", "{}"));
  ExpectBodyRefused("messages", chat("[]"));
  ExpectBodyRefused("messages", chat("\"hi\""));
  ExpectBodyRefused("messages[0]", chat("[null]"));
  ExpectBodyRefused("messages[0].role", chat(R"([{"content":"x"}])"));
  ExpectBodyRefused("messages[0].role", chat(R"([{"role":"tool","content":"x"}])"));
  ExpectBodyRefused("messages[0].content", chat(R"([{"role":"user"}])"));
  ExpectBodyRefused("messages[0].content", chat(R"([{"role":"user","content":[]}])"));
  ExpectBodyRefused("messages[0].content",
                    chat(R"([{"role":"user","content":[{"type":"image_url"}]}])"));
  ExpectBodyRefused("messages[1].tool_calls",
                    chat(R"([{"role":"user","content":"x"},)"
                         R"({"role":"assistant","content":"x","tool_calls":[{}]}])"));
}

TEST(TranslateLineTest, WhatWouldChangeTheAnswerAndIsNotServedIsRefusedByName) {
  for (const auto& [param, value] : std::vector<std::pair<std::string, std::string>>{
           {"tools", "[{}]"},
           {"tool_choice", "\"auto\""},
           {"functions", "[{}]"},
           {"logit_bias", "{\"5\":1}"},
           {"response_format", "{\"type\":\"json_object\"}"},
           {"stream", "true"},
           {"n", "2"},
           {"best_of", "3"},
           {"guided_regex", "\"a*\""}}) {
    ExpectBodyRefused(param, Chat(",\"" + param + "\":" + value));
    EXPECT_EQ(MustRefuse(Chat(",\"" + param + "\":" + value)).code, "unsupported_parameter");
  }
  MustTranslate(Chat(R"(,"logit_bias":{},"tools":[],"tool_choice":"none","frobnicate":[1])"));
}

TEST(TranslateLineTest, ValuesOfTheWrongTypeOrRangeAreRefusedByName) {
  for (const auto& [param, value] :
       std::vector<std::pair<std::string, std::string>>{{"max_tokens", "0"},
                                                        {"max_tokens", "1.5"},
                                                        {"max_tokens", "\"5\""},
                                                        {"max_tokens", "99999999999999999999"},
                                                        {"max_tokens", "2000000000"},
                                                        {"n", "0"},
                                                        {"temperature", "-1"},
                                                        {"temperature", "\"hot\""},
                                                        {"temperature", "1e300"},
                                                        {"top_p", "0"},
                                                        {"top_p", "1.5"},
                                                        {"top_k", "-2"},
                                                        {"min_p", "-0.5"},
                                                        {"seed", "1.5"},
                                                        {"seed", "18446744073709551615"},
                                                        {"stop", "\"\""},
                                                        {"stop", "[\"\"]"},
                                                        {"stop", "[1]"},
                                                        {"stop", "{}"},
                                                        {"presence_penalty", "3"},
                                                        {"frequency_penalty", "-3"},
                                                        {"repetition_penalty", "0"},
                                                        {"logprobs", "3"},
                                                        {"top_logprobs", "2"},
                                                        {"model", "5"},
                                                        {"stream", "1"},
                                                        {"stop_token_ids", "[-1]"}}) {
    ExpectBodyRefused(param, Chat(",\"" + param + "\":" + value));
  }
  ExpectBodyRefused("max_completion_tokens", Chat(",\"max_tokens\":3,\"max_completion_tokens\":4"));
  ExpectBodyRefused("logprobs", Completion(R"(,"prompt":"x","logprobs":true)"));
  ExpectBodyRefused("echo", Completion(R"(,"prompt":"x","echo":1)"));
}

// ------------------------------------------------------------------------------- rows

const LineInfo kLine{.number = 7,
                     .custom_id = "a",
                     .request_id = "nightly-7-00000000000000ff",
                     .endpoint = Endpoint::kChat,
                     .model = "m"};

wire::ResultRecord OkResult() {
  wire::ResultRecord result;
  result.controller_epoch = ControllerEpoch(1);
  result.output.tokens = {5, 6};
  result.output.text = "yes";
  result.output.finish = wire::FinishReason::kEnd;
  result.output.prompt_tokens = 10;
  result.output.cached_tokens = 8;
  return result;
}

TEST(ResultRowTest, AnAnswerHasOpenAisShape) {
  const ResultRow row = RowOfResult(kLine, OkResult(), 1700000000);
  EXPECT_FALSE(row.is_error);
  EXPECT_EQ(Json::parse(row.json), Json::parse(R"({
    "id": "batch_req_nightly-7-00000000000000ff", "custom_id": "a", "error": null,
    "response": {"status_code": 200, "request_id": "nightly-7-00000000000000ff", "body": {
      "id": "chatcmpl-nightly-7-00000000000000ff", "object": "chat.completion",
      "created": 1700000000, "model": "m",
      "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"},
                   "logprobs": null, "finish_reason": "stop"}],
      "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12,
                "prompt_tokens_details": {"cached_tokens": 8}}}}})"));
}

TEST(ResultRowTest, ACompletionHasItsTextAndLengthAsReason) {
  LineInfo line = kLine;
  line.endpoint = Endpoint::kCompletions;
  wire::ResultRecord result = OkResult();
  result.output.finish = wire::FinishReason::kLength;
  const Json body = Json::parse(RowOfResult(line, result, 1).json)["response"]["body"];
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["choices"][0]["text"], "yes");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
}

TEST(ResultRowTest, LogprobsHaveTheShapeOfTheirEndpoint) {
  wire::ResultRecord result = OkResult();
  result.output.logprobs = {
      {.chosen = {5, -0.5f}, .top = {{5, -0.5f}, {6, -std::numeric_limits<float>::infinity()}}}};
  const Json chat = Json::parse(RowOfResult(kLine, result, 1).json);
  const Json token = chat["response"]["body"]["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(token["token"], "token_id:5");
  EXPECT_EQ(token["logprob"], -0.5);
  EXPECT_EQ(token["top_logprobs"][1]["token"], "token_id:6");
  EXPECT_EQ(token["top_logprobs"][1]["logprob"], -9999.0);
  LineInfo line = kLine;
  line.endpoint = Endpoint::kCompletions;
  const Json completion = Json::parse(RowOfResult(line, result, 1).json);
  const Json logprobs = completion["response"]["body"]["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json({"token_id:5"}));
  EXPECT_EQ(logprobs["token_logprobs"], Json({-0.5}));
  EXPECT_EQ(logprobs["top_logprobs"][0]["token_id:6"], -9999.0);
}

TEST(ResultRowTest, TextThatIsNoUtf8StillMakesARow) {
  wire::ResultRecord result = OkResult();
  result.output.text = "ok\xff\n";
  const std::string row = RowOfResult(kLine, result, 1).json;
  EXPECT_TRUE(Json::accept(row));
  EXPECT_EQ(row.find('\n'), std::string::npos);
}

// A body is no proof of success: clients test status_code, and `error` where nothing ran.
TEST(ResultRowTest, ARefusedRequestHasAStatusAndABodyThatSaysWhy) {
  wire::ResultRecord result;
  result.outcome = wire::Outcome::kError;
  result.error = {.code = StatusCode::kNotFound, .message = "no model x", .client_fault = true};
  const ResultRow row = RowOfResult(kLine, result, 1);
  EXPECT_TRUE(row.is_error);
  const Json json = Json::parse(row.json);
  EXPECT_TRUE(json["error"].is_null());
  EXPECT_EQ(json["response"]["status_code"], 404);
  EXPECT_EQ(json["response"]["body"]["error"]["message"], "line 7: no model x");
  EXPECT_EQ(json["response"]["body"]["error"]["code"], "not_found");
}

TEST(ResultRowTest, StatusesTellClientFaultsFromOurs) {
  const auto status_of = [](StatusCode code, bool client_fault) {
    wire::ResultRecord result;
    result.outcome = wire::Outcome::kError;
    result.error = {.code = code, .message = "", .client_fault = client_fault};
    return Json::parse(RowOfResult(kLine, result, 1).json)["response"]["status_code"].get<int>();
  };
  EXPECT_EQ(status_of(StatusCode::kInvalidArgument, true), 400);
  EXPECT_EQ(status_of(StatusCode::kResourceExhausted, false), 429);
  EXPECT_EQ(status_of(StatusCode::kResourceExhausted, true), 400);
  EXPECT_EQ(status_of(StatusCode::kUnavailable, false), 503);
  EXPECT_EQ(status_of(StatusCode::kDeadlineExceeded, false), 504);
  EXPECT_EQ(status_of(StatusCode::kInternal, false), 500);
}

TEST(ResultRowTest, WhatNeverRanHasNoResponse) {
  wire::ResultRecord result;
  result.outcome = wire::Outcome::kExpired;
  Json json = Json::parse(RowOfResult(kLine, result, 1).json);
  EXPECT_TRUE(json["response"].is_null());
  EXPECT_EQ(json["error"]["code"], "batch_expired");
  result.outcome = wire::Outcome::kCancelled;
  json = Json::parse(RowOfResult(kLine, result, 1).json);
  EXPECT_EQ(json["error"]["code"], "batch_cancelled");
  json = Json::parse(FaultRow(kLine, {.code = "invalid_json_line", .message = "bad"}));
  EXPECT_EQ(json["error"],
            Json({{"code", "invalid_json_line"}, {"message", "line 7: bad"}, {"line", 7}}));
}

TEST(ResultRowTest, DeadAndConflictingRequestsAreErrors) {
  wire::ResultRecord result;
  result.outcome = wire::Outcome::kDead;
  EXPECT_EQ(Json::parse(RowOfResult(kLine, result, 1).json)["response"]["status_code"], 500);
  result = {};
  result.kind = wire::ResultKind::kConflict;
  const ResultRow row = RowOfResult(kLine, result, 1);
  EXPECT_TRUE(row.is_error);
  EXPECT_EQ(Json::parse(row.json)["response"]["status_code"], 409);
}

TEST(ResultRowTest, ARowTellsWhichLineItIs) {
  LineInfo line = kLine;
  line.request_id = MakeRequestId("job-with-dash", 7, 0xabc);
  RowName name;
  ASSERT_TRUE(ReadRowName(RowOfResult(line, OkResult(), 1).json, &name));
  EXPECT_EQ(name.line, 7u);
  EXPECT_EQ(name.content_hash, 0xabcu);
  ASSERT_TRUE(ReadRowName(FaultRow(line, {.code = "c", .message = "m"}), &name));
  for (const char* other : {"", "{}", "null", "x", R"({"id":"batch_req_a-7-0"})",
                            R"({"id":"a-7-0","response":null,"error":null})",
                            R"({"id":"batch_req_a-0-0","response":null,"error":null})",
                            R"({"id":"batch_req_a-7-zz","response":null,"error":null})",
                            R"({"id":"batch_req_7","response":null,"error":null})"}) {
    EXPECT_FALSE(ReadRowName(other, &name)) << other;
  }
}

}  // namespace
}  // namespace baton::batch
