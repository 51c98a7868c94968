// Builders for tests of the ledger. No state.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/ledger/ledger.h"

namespace baton::ledger::testing {

inline Submitted Submit(const std::string& id, int64_t offset, int64_t deadline_ms = 0) {
  Submitted event;
  event.request.id = {"t", id};
  event.request.prompt_text = "hello";
  event.request.deadline_ms = deadline_ms;
  event.content_hash = 7;
  event.source = {"in", 0, offset};
  event.fresh_seed = 99;
  return event;
}

inline Target Instance(const std::string& name, uint64_t epoch) {
  return {name, InstanceEpoch(epoch), LeaseNumber(epoch + 100)};
}

inline wire::HandoffDescriptor Handoff(const wire::Address& from) {
  wire::HandoffDescriptor handoff;
  handoff.instance = from.instance;
  handoff.instance_epoch = from.instance_epoch;
  handoff.attempt = from.attempt;
  handoff.lease = 5;
  handoff.tokens = 3;
  return handoff;
}

// The answer of a well-behaved instance to an assignment.
inline wire::Event Answer(const wire::Assignment& assignment, wire::EventKind kind) {
  wire::Event event;
  event.from = assignment.to;
  event.kind = kind;
  event.phase = assignment.phase;
  if (kind == wire::EventKind::kContextDone) {
    event.handoff = Handoff(assignment.to);
    event.prompt_tokens = {1, 2, 3};
    event.first_tokens = {4};
  }
  if (kind == wire::EventKind::kGenerationDone) {
    event.output.tokens = {4, 5};
    event.output.finish = wire::FinishReason::kLength;
  }
  if (kind == wire::EventKind::kFailed) {
    event.error = wire::ErrorInfo{StatusCode::kUnavailable, "made to fail", false};
  }
  return event;
}

template <typename T>
std::vector<T> Only(const Effects& effects) {
  std::vector<T> found;
  for (const Effect& effect : effects) {
    if (const T* action = std::get_if<T>(&effect.action)) found.push_back(*action);
  }
  return found;
}

}  // namespace baton::ledger::testing
