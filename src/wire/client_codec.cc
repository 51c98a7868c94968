// What the cluster and its clients and operators say to each other, requests excepted.
#include <fmt/format.h>

#include "schemas/control_generated.h"
#include "schemas/dead_letter_generated.h"
#include "schemas/result_record_generated.h"
#include "schemas/token_record_generated.h"
#include "src/wire/codec.h"
#include "src/wire/convert.h"
#include "src/wire/open.h"

namespace baton::wire {
namespace internal {

static_assert(static_cast<int>(Outcome::kDead) == static_cast<int>(fb::Outcome::MAX));
static_assert(static_cast<int>(ResultKind::kConflict) == static_cast<int>(fb::ResultKind::MAX));
static_assert(static_cast<int>(ControlKind::kReprioritise) ==
              static_cast<int>(fb::ControlKind::MAX));
static_assert(static_cast<int>(ControlScope::kTenant) == static_cast<int>(fb::ControlScope::MAX));

// Static and not in an unnamed namespace: Open() finds From() by its arguments.
constexpr size_t kDeadMessageBytesMax = 512;

static Offset<fb::Provenance> To(Builder& b, const Provenance& provenance) {
  const auto model = ToText(b, provenance.model);
  const auto weights_hash = ToText(b, provenance.weights_hash);
  const auto context_instance = ToText(b, provenance.context_instance);
  const auto generation_instance = ToText(b, provenance.generation_instance);
  return fb::CreateProvenance(b, model, weights_hash, provenance.seed, context_instance,
                              generation_instance);
}

static Provenance From(Reader& r, const fb::Provenance* provenance) {
  return {.model = r.Text(provenance->model()),
          .weights_hash = r.Text(provenance->weights_hash()),
          .seed = provenance->seed(),
          .context_instance = r.Text(provenance->context_instance()),
          .generation_instance = r.Text(provenance->generation_instance())};
}

static ResultRecord From(Reader& r, const fb::ResultRecord* result) {
  ResultRecord out{.id = From(r, result->id()),
                   .kind = r.Enum<ResultKind>(result->kind(), "kind"),
                   .outcome = r.Enum<Outcome>(result->outcome(), "outcome"),
                   .attempt = Attempt(result->attempt()),
                   .controller_epoch = ControllerEpoch(result->controller_epoch()),
                   .output = From(r, result->output()),
                   .error = FromOptional(r, result->error()),
                   .timings = From(r, result->timings()),
                   .provenance = std::nullopt,
                   .job = r.Text(result->job()),
                   .correlation_id = r.Text(result->correlation_id()),
                   .original_partition = result->original_partition(),
                   .original_offset = result->original_offset()};
  if (result->provenance() != nullptr) out.provenance = From(r, result->provenance());
  if (out.kind == ResultKind::kCopy && (out.original_partition < 0 || out.original_offset < 0)) {
    r.Fail("original: a copy does not say where its original is");
  }
  if (out.outcome == Outcome::kError && !out.error) r.Fail("error: missing in an error result");
  return out;
}

static TokenRecord From(Reader& r, const fb::TokenRecord* token) {
  return {.id = From(r, token->id()),
          .attempt = Attempt(token->attempt()),
          .instance_epoch = InstanceEpoch(token->instance_epoch()),
          .sequence = token->sequence(),
          .tokens = r.Numbers(token->tokens()),
          .text = r.Text(token->text())};
}

static Control From(Reader& r, const fb::Control* control) {
  return {.kind = r.Enum<ControlKind>(control->kind(), "kind"),
          .scope = r.Enum<ControlScope>(control->scope(), "scope"),
          .id = From(r, control->id()),
          .job = r.Text(control->job()),
          .priority = r.Enum<Priority>(control->priority(), "priority")};
}

static DeadLetter From(Reader& r, const fb::DeadLetter* dead) {
  DeadLetter out{.stage = r.Text(dead->stage()),
                 .code = r.Text(dead->code()),
                 .message = r.Text(dead->message()),
                 .topic = r.Text(dead->topic()),
                 .partition = dead->partition(),
                 .offset = dead->offset(),
                 .key = r.Bytes(dead->key()),
                 .value = r.Bytes(dead->value()),
                 .headers = {},
                 .id = FromOptional(r, dead->id()),
                 .controller_epoch = ControllerEpoch(dead->controller_epoch())};
  if (out.message.size() > kDeadMessageBytesMax) {
    r.Fail(fmt::format("message: {} bytes, at most {}", out.message.size(), kDeadMessageBytesMax));
  }
  if (dead->headers() == nullptr) return out;
  for (const fb::Header* header : *dead->headers()) {
    std::string name = r.Bytes(header->name());
    out.headers.emplace_back(std::move(name), r.Bytes(header->value()));
  }
  return out;
}

// At most 512 bytes, cut between characters, since a reader refuses more.
static std::string_view Shorten(std::string_view message) {
  if (message.size() <= kDeadMessageBytesMax) return message;
  size_t end = kDeadMessageBytesMax;
  while (end > 0 && (static_cast<uint8_t>(message[end]) & 0xc0) == 0x80) --end;
  return message.substr(0, end);
}

}  // namespace internal

using internal::Builder;
using internal::To;

std::string Encode(const ResultRecord& result) {
  Builder b;
  const auto id = To(b, result.id);
  const auto output = To(b, result.output);
  const auto error = internal::ToOptional(b, result.error);
  const auto timings = To(b, result.timings);
  internal::Offset<fb::Provenance> provenance;
  if (result.provenance) provenance = To(b, *result.provenance);
  const auto job = internal::ToText(b, result.job);
  const auto correlation_id = internal::ToText(b, result.correlation_id);
  const auto root = fb::CreateResultRecord(
      b, id, static_cast<fb::ResultKind>(result.kind), static_cast<fb::Outcome>(result.outcome),
      result.attempt.value, result.controller_epoch.value, output, error, timings, provenance, job,
      correlation_id, result.original_partition, result.original_offset);
  return internal::Close(b, root, fb::ResultRecordIdentifier());
}

Result<ResultRecord> DecodeResult(std::string_view bytes) {
  return internal::Open<fb::ResultRecord>(bytes, fb::ResultRecordIdentifier(),
                                          internal::kTablesFew);
}

std::string Encode(const TokenRecord& token) {
  Builder b;
  const auto id = To(b, token.id);
  const auto tokens = internal::ToNumbers(b, token.tokens);
  const auto text = internal::ToText(b, token.text);
  const auto root = fb::CreateTokenRecord(b, id, token.attempt.value, token.instance_epoch.value,
                                          token.sequence, tokens, text);
  return internal::Close(b, root, fb::TokenRecordIdentifier());
}

Result<TokenRecord> DecodeToken(std::string_view bytes) {
  return internal::Open<fb::TokenRecord>(bytes, fb::TokenRecordIdentifier(), internal::kTablesFew);
}

std::string Encode(const Control& control) {
  Builder b;
  const auto id = To(b, control.id);
  const auto job = internal::ToText(b, control.job);
  const auto root = fb::CreateControl(b, static_cast<fb::ControlKind>(control.kind),
                                      static_cast<fb::ControlScope>(control.scope), id, job,
                                      static_cast<fb::Priority>(control.priority));
  return internal::Close(b, root, fb::ControlIdentifier());
}

Result<Control> DecodeControl(std::string_view bytes) {
  return internal::Open<fb::Control>(bytes, fb::ControlIdentifier(), internal::kTablesFew);
}

std::string Encode(const DeadLetter& dead) {
  Builder b;
  const auto stage = internal::ToText(b, dead.stage);
  const auto code = internal::ToText(b, dead.code);
  const auto message = internal::ToText(b, internal::Shorten(dead.message));
  const auto topic = internal::ToText(b, dead.topic);
  const auto key = internal::ToBytes(b, dead.key);
  const auto value = internal::ToBytes(b, dead.value);
  std::vector<internal::Offset<fb::Header>> headers;
  headers.reserve(dead.headers.size());
  for (const auto& [name, text] : dead.headers) {
    const auto name_bytes = internal::ToBytes(b, name);
    const auto value_bytes = internal::ToBytes(b, text);
    headers.push_back(fb::CreateHeader(b, name_bytes, value_bytes));
  }
  internal::Offset<internal::Vector<internal::Offset<fb::Header>>> header_vector;
  if (!headers.empty()) header_vector = b.CreateVector(headers);
  const auto id = internal::ToOptional(b, dead.id);
  const auto root =
      fb::CreateDeadLetter(b, stage, code, message, topic, dead.partition, dead.offset, key, value,
                           header_vector, id, dead.controller_epoch.value);
  return internal::Close(b, root, fb::DeadLetterIdentifier());
}

Result<DeadLetter> DecodeDeadLetter(std::string_view bytes) {
  return internal::Open<fb::DeadLetter>(bytes, fb::DeadLetterIdentifier(), internal::kTablesMany);
}

}  // namespace baton::wire
