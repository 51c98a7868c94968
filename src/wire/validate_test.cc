// Scenario 18 and each limit of a request: refused by the name of the field.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "src/wire/codec.h"
#include "src/wire/examples.h"

namespace baton::wire {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Request Good() {
  Request request;
  request.id = {"tenant", "id"};
  request.prompt_text = "Once upon a time";
  return request;
}

Request GoodGenerationOnly() {
  Request request = Good();
  request.kind = RequestKind::kGenerationOnly;
  request.handoff = examples::FullHandoff();
  request.first_tokens = {5};
  return request;
}

void ExpectRefused(const char* field, const std::function<void(Request&)>& spoil,
                   Request request = Good()) {
  spoil(request);
  const Status status = ValidateRequest(request);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << field;
  EXPECT_TRUE(status.message().starts_with(std::string(field) + ": ")) << status.ToString();
}

TEST(ValidateTest, OrdinaryRequestsPass) {
  EXPECT_EQ(ValidateRequest(Good()), OkStatus());
  EXPECT_EQ(ValidateRequest(GoodGenerationOnly()), OkStatus());
  Request tokens = Good();
  tokens.prompt_text.clear();
  tokens.prompt_tokens = {0, 1};
  EXPECT_EQ(ValidateRequest(tokens), OkStatus());
  Request chat = Good();
  chat.prompt_text.clear();
  chat.chat_messages_json = " [{\"role\":\"user\",\"content\":\"hi\"}]\n";
  EXPECT_EQ(ValidateRequest(chat), OkStatus());
}

TEST(ValidateTest, TheEndsOfEveryRangePass) {
  Request request = Good();
  request.sampling = {.temperature = 100,
                      .top_k = 1,
                      .top_p = 0.001f,
                      .min_p = 1,
                      .repetition_penalty = 0.01f,
                      .presence_penalty = -2,
                      .frequency_penalty = 2,
                      .seed = 0};
  request.max_tokens = 1;
  request.logprobs = 20;
  request.stop_strings.assign(16, std::string(256, 's'));
  request.stop_tokens.assign(64, 0);
  request.id.request_id.assign(256, 'i');
  EXPECT_EQ(ValidateRequest(request), OkStatus());
}

TEST(ValidateTest, NamesAreBoundedText) {
  ExpectRefused("id.request_id", [](Request& r) { r.id.request_id.clear(); });
  ExpectRefused("id.request_id", [](Request& r) { r.id.request_id.assign(257, 'i'); });
  ExpectRefused("id.request_id", [](Request& r) { r.id.request_id = "\xff"; });
  ExpectRefused("id.tenant", [](Request& r) { r.id.tenant.assign(257, 't'); });
  ExpectRefused("model", [](Request& r) { r.model.assign(257, 'm'); });
  ExpectRefused("cache_salt", [](Request& r) { r.cache_salt.assign(257, 'c'); });
  ExpectRefused("job", [](Request& r) { r.job.assign(257, 'j'); });
  ExpectRefused("correlation_id", [](Request& r) { r.correlation_id.assign(1025, 'c'); });
  ExpectRefused("traceparent", [](Request& r) { r.traceparent.assign(129, 't'); });
  ExpectRefused("reply_topic", [](Request& r) { r.reply_topic.assign(250, 'r'); });
  ExpectRefused("reply_topic", [](Request& r) { r.reply_topic = "replies/mine"; });
}

TEST(ValidateTest, ExactlyOneKindOfPromptWithSomethingInIt) {
  ExpectRefused("prompt", [](Request& r) { r.prompt_text.clear(); });
  ExpectRefused("prompt", [](Request& r) { r.prompt_tokens = {1}; });
  ExpectRefused("prompt", [](Request& r) { r.chat_messages_json = "[{}]"; });
  ExpectRefused("prompt_text", [](Request& r) { r.prompt_text = "caf\xe9"; });
  const auto chat = [](const char* json) {
    return [json](Request& r) {
      r.prompt_text.clear();
      r.chat_messages_json = json;
    };
  };
  ExpectRefused("chat_messages_json", chat("{}"));
  ExpectRefused("chat_messages_json", chat(" [ ]"));
  ExpectRefused("chat_messages_json", chat("["));
  ExpectRefused("chat_messages_json", chat("  "));
  ExpectRefused("prompt_tokens", [](Request& r) {
    r.prompt_text.clear();
    r.prompt_tokens = {1, -1};
  });
}

TEST(ValidateTest, CountsAreWithinTheirLimits) {
  ExpectRefused("max_tokens", [](Request& r) { r.max_tokens = 0; });
  ExpectRefused("max_tokens", [](Request& r) { r.max_tokens = UINT32_MAX; });
  ExpectRefused("n", [](Request& r) { r.n = 0; });
  ExpectRefused("n", [](Request& r) { r.n = 2; });
  ExpectRefused("logprobs", [](Request& r) { r.logprobs = 21; });
  ExpectRefused("deadline_ms", [](Request& r) { r.deadline_ms = -1; });
}

TEST(ValidateTest, SamplingIsFiniteAndWithinItsRanges) {
  for (const float bad : {kNan, kInf, -kInf, -0.5f, 101.0f}) {
    ExpectRefused("sampling.temperature", [bad](Request& r) { r.sampling.temperature = bad; });
    ExpectRefused("sampling.top_p", [bad](Request& r) { r.sampling.top_p = bad; });
    ExpectRefused("sampling.min_p", [bad](Request& r) { r.sampling.min_p = bad; });
    ExpectRefused("sampling.repetition_penalty",
                  [bad](Request& r) { r.sampling.repetition_penalty = bad; });
  }
  for (const float bad : {kNan, kInf, -kInf, -2.5f, 2.5f}) {
    ExpectRefused("sampling.presence_penalty",
                  [bad](Request& r) { r.sampling.presence_penalty = bad; });
    ExpectRefused("sampling.frequency_penalty",
                  [bad](Request& r) { r.sampling.frequency_penalty = bad; });
  }
  ExpectRefused("sampling.top_k", [](Request& r) { r.sampling.top_k = -1; });
  ExpectRefused("sampling.top_p", [](Request& r) { r.sampling.top_p = 0; });
  ExpectRefused("sampling.repetition_penalty",
                [](Request& r) { r.sampling.repetition_penalty = 0; });
}

TEST(ValidateTest, StopsAreFewShortAndNotEmpty) {
  ExpectRefused("stop_strings", [](Request& r) { r.stop_strings = {"ok", ""}; });
  ExpectRefused("stop_strings", [](Request& r) { r.stop_strings.assign(17, "s"); });
  ExpectRefused("stop_strings", [](Request& r) { r.stop_strings = {std::string(257, 's')}; });
  ExpectRefused("stop_strings", [](Request& r) { r.stop_strings = {"\xc0\x80"}; });
  ExpectRefused("stop_tokens", [](Request& r) { r.stop_tokens = {-1}; });
  ExpectRefused("stop_tokens", [](Request& r) { r.stop_tokens.assign(65, 1); });
  ExpectRefused("end_id", [](Request& r) { r.end_id = -1; });
}

TEST(ValidateTest, AHandoffGoesWithGenerationOnlyAndNothingElse) {
  ExpectRefused("handoff", [](Request& r) { r.handoff = examples::FullHandoff(); });
  ExpectRefused("first_tokens", [](Request& r) { r.first_tokens = {1}; });
  const auto generation = [](const char* field, const std::function<void(Request&)>& spoil) {
    ExpectRefused(field, spoil, GoodGenerationOnly());
  };
  generation("handoff", [](Request& r) { r.handoff.reset(); });
  generation("first_tokens", [](Request& r) { r.first_tokens.clear(); });
  generation("first_tokens", [](Request& r) { r.first_tokens = {-7}; });
  generation("handoff.endpoints", [](Request& r) { r.handoff->endpoints.clear(); });
  generation("handoff.tokens", [](Request& r) { r.handoff->tokens = 0; });
  generation("handoff.blocks", [](Request& r) { r.handoff->tokens = 65; });
}

}  // namespace
}  // namespace baton::wire
