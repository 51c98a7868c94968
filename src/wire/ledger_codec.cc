// What a controller writes for its successors.
#include <fmt/format.h>

#include "schemas/ledger_claim_generated.h"
#include "schemas/ledger_instance_generated.h"
#include "schemas/ledger_position_generated.h"
#include "schemas/ledger_request_generated.h"
#include "src/wire/codec.h"
#include "src/wire/convert.h"
#include "src/wire/open.h"

namespace baton::wire {
namespace internal {

static_assert(static_cast<int>(RequestState::kParked) == static_cast<int>(fb::RequestState::MAX));

// Static and not in an unnamed namespace: Open() finds From() by its arguments.
static LedgerRequest From(Reader& r, const fb::LedgerRequest* record) {
  return {.request = From(r, record->request()),
          .state = r.Enum<RequestState>(record->state(), "state"),
          .attempt = Attempt(record->attempt()),
          .controller_epoch = ControllerEpoch(record->controller_epoch()),
          .content_hash = record->content_hash(),
          .context_instance = r.Text(record->context_instance()),
          .context_instance_epoch = InstanceEpoch(record->context_instance_epoch()),
          .context_lease = LeaseNumber(record->context_lease()),
          .generation_instance = r.Text(record->generation_instance()),
          .generation_instance_epoch = InstanceEpoch(record->generation_instance_epoch()),
          .generation_lease = LeaseNumber(record->generation_lease()),
          .handoff = FromOptional(r, record->handoff()),
          .prompt_tokens = r.Numbers(record->prompt_tokens()),
          .first_tokens = r.Numbers(record->first_tokens()),
          .first_logprobs = From(r, record->first_logprobs()),
          .failures = record->failures(),
          .deaths = record->deaths(),
          .alone = record->alone(),
          .cancel_requested = record->cancel_requested(),
          .parked_until_ms = record->parked_until_ms(),
          .source_topic = r.Text(record->source_topic()),
          .source_partition = record->source_partition(),
          .source_offset = record->source_offset(),
          .received_ms = record->received_ms(),
          .outcome = r.Enum<Outcome>(record->outcome(), "outcome"),
          .result_partition = record->result_partition(),
          .result_offset = record->result_offset(),
          .timings = From(r, record->timings()),
          .cached_tokens = record->cached_tokens()};
}

static LedgerPosition From(Reader& r, const fb::LedgerPosition* record) {
  LedgerPosition out{.topic = r.Text(record->topic()),
                     .partition = record->partition(),
                     .offset = record->offset(),
                     .controller_epoch = ControllerEpoch(record->controller_epoch())};
  if (out.partition < 0 || out.offset < 0) {
    r.Fail(fmt::format("position: partition {} offset {}", out.partition, out.offset));
  }
  return out;
}

static LedgerClaim From(Reader& r, const fb::LedgerClaim* record) {
  LedgerClaim out{.controller_epoch = ControllerEpoch(record->controller_epoch()),
                  .uuid = r.Text(record->uuid()),
                  .host = r.Text(record->host()),
                  .wall_ms = record->wall_ms()};
  if (out.wall_ms < 0) r.Fail("wall_ms: negative");
  return out;
}

static LedgerInstance From(Reader& r, const fb::LedgerInstance* record) {
  return {.registration = From(r, record->registration()),
          .instance_epoch = InstanceEpoch(record->instance_epoch()),
          .slot = Slot(record->slot()),
          .lease = LeaseNumber(record->lease()),
          .start_offset = record->start_offset(),
          .controller_epoch = ControllerEpoch(record->controller_epoch()),
          .dead = record->dead()};
}

template <typename Root>
static Result<LedgerRecord> OpenLedger(std::string_view bytes, const char* identifier,
                                       uint32_t tables_max) {
  ASSIGN_OR_RETURN(auto record, Open<Root>(bytes, identifier, tables_max));
  return LedgerRecord(std::move(record));
}

}  // namespace internal

using internal::Builder;
using internal::To;

std::string Encode(const LedgerRequest& record) {
  Builder b;
  const auto request = To(b, record.request);
  const auto context_instance = internal::ToText(b, record.context_instance);
  const auto generation_instance = internal::ToText(b, record.generation_instance);
  const auto handoff = internal::ToOptional(b, record.handoff);
  const auto prompt_tokens = internal::ToNumbers(b, record.prompt_tokens);
  const auto first_tokens = internal::ToNumbers(b, record.first_tokens);
  const auto first_logprobs = To(b, record.first_logprobs);
  const auto source_topic = internal::ToText(b, record.source_topic);
  const auto timings = To(b, record.timings);
  const auto root = fb::CreateLedgerRequest(
      b, request, static_cast<fb::RequestState>(record.state), record.attempt.value,
      record.controller_epoch.value, record.content_hash, context_instance,
      record.context_instance_epoch.value, record.context_lease.value, generation_instance,
      record.generation_instance_epoch.value, record.generation_lease.value, handoff, prompt_tokens,
      first_tokens, first_logprobs, record.failures, record.deaths, record.alone,
      record.cancel_requested, record.parked_until_ms, source_topic, record.source_partition,
      record.source_offset, record.received_ms, static_cast<fb::Outcome>(record.outcome),
      record.result_partition, record.result_offset, timings, record.cached_tokens);
  return internal::Close(b, root, fb::LedgerRequestIdentifier());
}

std::string Encode(const LedgerPosition& record) {
  Builder b;
  const auto topic = internal::ToText(b, record.topic);
  const auto root = fb::CreateLedgerPosition(b, topic, record.partition, record.offset,
                                             record.controller_epoch.value);
  return internal::Close(b, root, fb::LedgerPositionIdentifier());
}

std::string Encode(const LedgerClaim& record) {
  Builder b;
  const auto uuid = internal::ToText(b, record.uuid);
  const auto host = internal::ToText(b, record.host);
  const auto root =
      fb::CreateLedgerClaim(b, record.controller_epoch.value, uuid, host, record.wall_ms);
  return internal::Close(b, root, fb::LedgerClaimIdentifier());
}

std::string Encode(const LedgerInstance& record) {
  Builder b;
  const auto registration = To(b, record.registration);
  const auto root = fb::CreateLedgerInstance(
      b, registration, record.instance_epoch.value, record.slot.value, record.lease.value,
      record.start_offset, record.controller_epoch.value, record.dead);
  return internal::Close(b, root, fb::LedgerInstanceIdentifier());
}

Result<LedgerRecord> DecodeLedger(std::string_view bytes) {
  BATON_RETURN_IF_ERROR(internal::CheckSize(bytes));
  const std::string_view found = internal::IdentifierOf(bytes);
  if (found == fb::LedgerRequestIdentifier()) {
    return internal::OpenLedger<fb::LedgerRequest>(bytes, fb::LedgerRequestIdentifier(),
                                                   internal::kTablesMany);
  }
  if (found == fb::LedgerPositionIdentifier()) {
    return internal::OpenLedger<fb::LedgerPosition>(bytes, fb::LedgerPositionIdentifier(),
                                                    internal::kTablesFew);
  }
  if (found == fb::LedgerClaimIdentifier()) {
    return internal::OpenLedger<fb::LedgerClaim>(bytes, fb::LedgerClaimIdentifier(),
                                                 internal::kTablesFew);
  }
  if (found == fb::LedgerInstanceIdentifier()) {
    return internal::OpenLedger<fb::LedgerInstance>(bytes, fb::LedgerInstanceIdentifier(),
                                                    internal::kTablesFew);
  }
  return internal::CheckIdentifier(bytes, "one of BLRQ BLPO BLCL BLIN");
}

}  // namespace baton::wire
