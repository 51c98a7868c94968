// Request and Registration: what clients and instances introduce themselves with, and what other
// messages carry inside.
#include <xxhash.h>

#include "schemas/registration_generated.h"
#include "schemas/request_generated.h"
#include "src/wire/codec.h"
#include "src/wire/convert.h"
#include "src/wire/open.h"

namespace baton::wire {
namespace internal {
namespace {

Offset<fb::Sampling> ToSampling(Builder& b, const SamplingParams& sampling) {
  if (sampling == SamplingParams{}) return {};
  return fb::CreateSampling(b, sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p,
                            sampling.repetition_penalty, sampling.presence_penalty,
                            sampling.frequency_penalty, sampling.seed);
}

SamplingParams FromSampling(const fb::Sampling* sampling) {
  if (sampling == nullptr) return {};
  return {.temperature = sampling->temperature(),
          .top_k = sampling->top_k(),
          .top_p = sampling->top_p(),
          .min_p = sampling->min_p(),
          .repetition_penalty = sampling->repetition_penalty(),
          .presence_penalty = sampling->presence_penalty(),
          .frequency_penalty = sampling->frequency_penalty(),
          .seed = sampling->seed()};
}

Offset<Vector<Offset<flatbuffers::String>>> ToTexts(Builder& b,
                                                    const std::vector<std::string>& texts) {
  if (texts.empty()) return {};
  return b.CreateVectorOfStrings(texts);
}

std::vector<std::string> FromTexts(Reader& r, const Vector<Offset<flatbuffers::String>>* texts) {
  std::vector<std::string> out;
  // Each reference takes four bytes of its own, however short the string is.
  if (texts == nullptr || !r.Spend(texts->size() * sizeof(flatbuffers::uoffset_t))) return out;
  for (const flatbuffers::String* text : *texts) {
    if (!r.ok()) return out;
    out.push_back(r.Text(text));
  }
  return out;
}

}  // namespace

Offset<fb::Request> To(Builder& b, const Request& request) {
  const auto id = To(b, request.id);
  const auto model = ToText(b, request.model);
  const auto prompt_tokens = ToNumbers(b, request.prompt_tokens);
  const auto prompt_text = ToText(b, request.prompt_text);
  const auto chat = ToText(b, request.chat_messages_json);
  const auto sampling = ToSampling(b, request.sampling);
  const auto stop_tokens = ToNumbers(b, request.stop_tokens);
  const auto stop_strings = ToTexts(b, request.stop_strings);
  const auto cache_salt = ToText(b, request.cache_salt);
  const auto job = ToText(b, request.job);
  const auto reply_topic = ToText(b, request.reply_topic);
  const auto correlation_id = ToText(b, request.correlation_id);
  const auto traceparent = ToText(b, request.traceparent);
  const auto handoff = ToOptional(b, request.handoff);
  const auto first_tokens = ToNumbers(b, request.first_tokens);
  return fb::CreateRequest(b, id, static_cast<fb::RequestKind>(request.kind), model, prompt_tokens,
                           prompt_text, chat, request.max_tokens, sampling, stop_tokens,
                           stop_strings, request.end_id, request.ignore_end, request.n,
                           request.logprobs, request.echo, request.stream,
                           static_cast<fb::Priority>(request.priority), request.deadline_ms,
                           cache_salt, request.want_provenance, job, reply_topic, correlation_id,
                           traceparent, handoff, first_tokens);
}

Request From(Reader& r, const fb::Request* request) {
  if (request == nullptr) {
    r.Fail("request: missing");
    return {};
  }
  return {.id = From(r, request->id()),
          .kind = r.Enum<RequestKind>(request->kind(), "kind"),
          .model = r.Text(request->model()),
          .prompt_tokens = r.Numbers(request->prompt_tokens()),
          .prompt_text = r.Text(request->prompt_text()),
          .chat_messages_json = r.Text(request->chat_messages_json()),
          .max_tokens = request->max_tokens(),
          .sampling = FromSampling(request->sampling()),
          .stop_tokens = r.Numbers(request->stop_tokens()),
          .stop_strings = FromTexts(r, request->stop_strings()),
          .end_id = request->end_id(),
          .ignore_end = request->ignore_end(),
          .n = request->n(),
          .logprobs = request->logprobs(),
          .echo = request->echo(),
          .stream = request->stream(),
          .priority = r.Enum<Priority>(request->priority(), "priority"),
          .deadline_ms = request->deadline_ms(),
          .cache_salt = r.Text(request->cache_salt()),
          .want_provenance = request->want_provenance(),
          .job = r.Text(request->job()),
          .reply_topic = r.Text(request->reply_topic()),
          .correlation_id = r.Text(request->correlation_id()),
          .traceparent = r.Text(request->traceparent()),
          .handoff = FromOptional(r, request->handoff()),
          .first_tokens = r.Numbers(request->first_tokens())};
}

Offset<fb::Registration> To(Builder& b, const Registration& registration) {
  const auto instance = ToText(b, registration.instance);
  const auto incarnation = ToText(b, registration.incarnation);
  const auto model = ToText(b, registration.model);
  const auto layout = To(b, registration.layout);
  const auto host = ToText(b, registration.host);
  return fb::CreateRegistration(b, instance, incarnation, static_cast<fb::Role>(registration.role),
                                model, layout, registration.max_running, registration.max_bytes,
                                registration.max_model_tokens, registration.kv_blocks, host,
                                registration.wall_ms);
}

Registration From(Reader& r, const fb::Registration* registration) {
  if (registration == nullptr) {
    r.Fail("registration: missing");
    return {};
  }
  return {.instance = r.Text(registration->instance()),
          .incarnation = r.Text(registration->incarnation()),
          .role = r.Enum<Role>(registration->role(), "role"),
          .model = r.Text(registration->model()),
          .layout = From(r, registration->layout()),
          .max_running = registration->max_running(),
          .max_bytes = registration->max_bytes(),
          .max_model_tokens = registration->max_model_tokens(),
          .kv_blocks = registration->kv_blocks(),
          .host = r.Text(registration->host()),
          .wall_ms = registration->wall_ms()};
}

}  // namespace internal

std::string Encode(const Request& request) {
  internal::Builder b;
  return internal::Close(b, internal::To(b, request), fb::RequestIdentifier());
}

Result<Request> DecodeRequest(std::string_view bytes) {
  return internal::Open<fb::Request>(bytes, fb::RequestIdentifier(), internal::kTablesMany);
}

std::string Encode(const Registration& registration) {
  internal::Builder b;
  return internal::Close(b, internal::To(b, registration), fb::RegistrationIdentifier());
}

Result<Registration> DecodeRegistration(std::string_view bytes) {
  return internal::Open<fb::Registration>(bytes, fb::RegistrationIdentifier(),
                                          internal::kTablesFew);
}

uint64_t ContentHash(const Request& request) {
  Request content = request;
  content.correlation_id.clear();
  content.traceparent.clear();
  const std::string bytes = Encode(content);
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace baton::wire
