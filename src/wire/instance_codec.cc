// What the controller and the instances say to each other.
#include <fmt/format.h>

#include "schemas/assignment_generated.h"
#include "schemas/event_generated.h"
#include "schemas/grant_generated.h"
#include "schemas/heartbeat_generated.h"
#include "src/wire/codec.h"
#include "src/wire/convert.h"
#include "src/wire/open.h"

namespace baton::wire {
namespace internal {

static_assert(static_cast<int>(AssignmentKind::kReleaseHandoff) ==
              static_cast<int>(fb::AssignmentKind::MAX));
static_assert(static_cast<int>(Phase::kFull) == static_cast<int>(fb::Phase::MAX));
static_assert(static_cast<int>(EventKind::kExpired) == static_cast<int>(fb::EventKind::MAX));

// Static and not in an unnamed namespace: Open() finds From() by its arguments.
static Assignment From(Reader& r, const fb::Assignment* assignment) {
  Assignment out{.to = From(r, assignment->to()),
                 .kind = r.Enum<AssignmentKind>(assignment->kind(), "kind"),
                 .phase = r.Enum<Phase>(assignment->phase(), "phase"),
                 .request = FromOptional(r, assignment->request()),
                 .handoff = FromOptional(r, assignment->handoff()),
                 .first_tokens = r.Numbers(assignment->first_tokens()),
                 .first_logprobs = From(r, assignment->first_logprobs())};
  if (out.kind != AssignmentKind::kRun) return out;
  if (!out.request) {
    r.Fail("request: missing in an assignment to run");
  } else if (out.phase == Phase::kGeneration && !out.handoff && !out.request->handoff) {
    r.Fail("handoff: missing in an assignment to generate");
  }
  return out;
}

static Grant From(Reader& r, const fb::Grant* grant) {
  return {.instance = r.Text(grant->instance()),
          .incarnation = r.Text(grant->incarnation()),
          .controller_epoch = ControllerEpoch(grant->controller_epoch()),
          .instance_epoch = InstanceEpoch(grant->instance_epoch()),
          .slot = Slot(grant->slot()),
          .start_offset = grant->start_offset(),
          .lease = LeaseNumber(grant->lease()),
          .refusal = Status(r.Enum<StatusCode>(grant->refusal_code(), "refusal_code"),
                            r.Text(grant->refusal_message()))};
}

static Event From(Reader& r, const fb::Event* event) {
  Event out{.from = From(r, event->from()),
            .kind = r.Enum<EventKind>(event->kind(), "kind"),
            .phase = r.Enum<Phase>(event->phase(), "phase"),
            .handoff = FromOptional(r, event->handoff()),
            .prompt_tokens = r.Numbers(event->prompt_tokens()),
            .first_tokens = r.Numbers(event->first_tokens()),
            .first_logprobs = From(r, event->first_logprobs()),
            .output = From(r, event->output()),
            .error = FromOptional(r, event->error()),
            .timings = From(r, event->timings())};
  if (out.kind == EventKind::kContextDone && !out.handoff) {
    r.Fail("handoff: missing though the context phase is done");
  }
  if (out.kind == EventKind::kFailed && !out.error) r.Fail("error: missing in a failure");
  return out;
}

static Heartbeat From(Reader& r, const fb::Heartbeat* heartbeat) {
  Heartbeat out{.instance = r.Text(heartbeat->instance()),
                .incarnation = r.Text(heartbeat->incarnation()),
                .instance_epoch = InstanceEpoch(heartbeat->instance_epoch()),
                .progress = heartbeat->progress(),
                .running = heartbeat->running(),
                .queued = heartbeat->queued(),
                .blocks_free = heartbeat->blocks_free(),
                .blocks_cached = heartbeat->blocks_cached(),
                .blocks_used = heartbeat->blocks_used(),
                .slot_offset = heartbeat->slot_offset(),
                .draining = heartbeat->draining(),
                .in_step = {}};
  if (out.slot_offset < 0) r.Fail("slot_offset: negative");
  if (heartbeat->in_step() == nullptr) return out;
  for (const fb::Identity* id : *heartbeat->in_step()) out.in_step.push_back(From(r, id));
  return out;
}

}  // namespace internal

using internal::Builder;
using internal::To;

std::string Encode(const Assignment& assignment) {
  Builder b;
  const auto to = To(b, assignment.to);
  const auto request = internal::ToOptional(b, assignment.request);
  const auto handoff = internal::ToOptional(b, assignment.handoff);
  const auto first_tokens = internal::ToNumbers(b, assignment.first_tokens);
  const auto first_logprobs = To(b, assignment.first_logprobs);
  const auto root = fb::CreateAssignment(b, to, static_cast<fb::AssignmentKind>(assignment.kind),
                                         static_cast<fb::Phase>(assignment.phase), request, handoff,
                                         first_tokens, first_logprobs);
  return internal::Close(b, root, fb::AssignmentIdentifier());
}

Result<Assignment> DecodeAssignment(std::string_view bytes) {
  return internal::Open<fb::Assignment>(bytes, fb::AssignmentIdentifier(), internal::kTablesMany);
}

std::string Encode(const Grant& grant) {
  Builder b;
  const auto instance = internal::ToText(b, grant.instance);
  const auto incarnation = internal::ToText(b, grant.incarnation);
  const auto refusal = internal::ToText(b, grant.refusal.message());
  const auto root =
      fb::CreateGrant(b, instance, incarnation, grant.controller_epoch.value,
                      grant.instance_epoch.value, grant.slot.value, grant.start_offset,
                      grant.lease.value, static_cast<fb::Code>(grant.refusal.code()), refusal);
  return internal::Close(b, root, fb::GrantIdentifier());
}

Result<Grant> DecodeGrant(std::string_view bytes) {
  return internal::Open<fb::Grant>(bytes, fb::GrantIdentifier(), internal::kTablesFew);
}

std::string Encode(const Event& event) {
  Builder b;
  const auto from = To(b, event.from);
  const auto handoff = internal::ToOptional(b, event.handoff);
  const auto prompt_tokens = internal::ToNumbers(b, event.prompt_tokens);
  const auto first_tokens = internal::ToNumbers(b, event.first_tokens);
  const auto first_logprobs = To(b, event.first_logprobs);
  const auto output = To(b, event.output);
  const auto error = internal::ToOptional(b, event.error);
  const auto timings = To(b, event.timings);
  const auto root = fb::CreateEvent(b, from, static_cast<fb::EventKind>(event.kind),
                                    static_cast<fb::Phase>(event.phase), handoff, prompt_tokens,
                                    first_tokens, first_logprobs, output, error, timings);
  return internal::Close(b, root, fb::EventIdentifier());
}

Result<Event> DecodeEvent(std::string_view bytes) {
  return internal::Open<fb::Event>(bytes, fb::EventIdentifier(), internal::kTablesMany);
}

std::string Encode(const Heartbeat& heartbeat) {
  Builder b;
  const auto instance = internal::ToText(b, heartbeat.instance);
  const auto incarnation = internal::ToText(b, heartbeat.incarnation);
  std::vector<internal::Offset<fb::Identity>> ids;
  ids.reserve(heartbeat.in_step.size());
  for (const Identity& id : heartbeat.in_step) ids.push_back(To(b, id));
  internal::Offset<internal::Vector<internal::Offset<fb::Identity>>> in_step;
  if (!ids.empty()) in_step = b.CreateVector(ids);
  const auto root = fb::CreateHeartbeat(
      b, instance, incarnation, heartbeat.instance_epoch.value, heartbeat.progress,
      heartbeat.running, heartbeat.queued, heartbeat.blocks_free, heartbeat.blocks_cached,
      heartbeat.blocks_used, heartbeat.slot_offset, heartbeat.draining, in_step);
  return internal::Close(b, root, fb::HeartbeatIdentifier());
}

Result<Heartbeat> DecodeHeartbeat(std::string_view bytes) {
  return internal::Open<fb::Heartbeat>(bytes, fb::HeartbeatIdentifier(), internal::kTablesMany);
}

}  // namespace baton::wire
