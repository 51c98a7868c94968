#include "src/controller/chains.h"

#include <utility>

#include "src/base/check.h"

namespace baton::controller {

using ledger::Action;
using ledger::WriteRecord;

void Chains::MakeRunnable(const Identity& id, Chain& chain) {
  if (chain.queued || chain.waiting) return;
  chain.queued = true;
  runnable_.push_back(id);
}

void Chains::Add(ledger::Effects effects) {
  for (ledger::Effect& effect : effects) {
    Chain& chain = chains_[effect.id];
    MakeRunnable(effect.id, chain);
    const auto* write = std::get_if<WriteRecord>(&effect.action);
    if (write == nullptr) {
      chain.actions.push_back(std::move(effect.action));
      continue;
    }
    WriteRecord* earlier = nullptr;
    for (size_t i = chain.waiting ? 1 : 0; i < chain.actions.size(); ++i) {
      auto* candidate = std::get_if<WriteRecord>(&chain.actions[i]);
      // Group marks of one tenant share a chain, not a key.
      if (candidate != nullptr && candidate->record.request.id == write->record.request.id &&
          (!effect.id.request_id.empty() ||
           candidate->record.request.job == write->record.request.job)) {
        earlier = candidate;
      }
    }
    if (earlier != nullptr) {
      *earlier = std::move(std::get<WriteRecord>(effect.action));
    } else {
      chain.actions.push_back(std::move(effect.action));
    }
  }
}

void Chains::Pump(const Start& start) {
  while (!runnable_.empty()) {
    const Identity id = std::move(runnable_.front());
    runnable_.pop_front();
    auto found = chains_.find(id);
    CHECK(found != chains_.end());
    found->second.queued = false;
    while (!found->second.actions.empty()) {
      // Marked first: what `start` adds to this chain comes behind.
      found->second.waiting = true;
      const Action action = std::move(found->second.actions.front());
      const bool done = start(id, action);
      found = chains_.find(id);
      if (!done) break;
      found->second.waiting = false;
      found->second.actions.pop_front();
    }
    if (found->second.actions.empty()) chains_.erase(found);
  }
}

void Chains::Done(const Identity& id) {
  const auto found = chains_.find(id);
  CHECK(found != chains_.end() && found->second.waiting, "acknowledged, but not started");
  found->second.waiting = false;
  found->second.actions.pop_front();
  if (found->second.actions.empty()) {
    chains_.erase(found);
  } else {
    MakeRunnable(id, found->second);
  }
}

std::vector<Action> Chains::Refused(const Identity& id) {
  const auto found = chains_.find(id);
  CHECK(found != chains_.end() && found->second.waiting, "refused, but not started");
  std::deque<Action> actions = std::move(found->second.actions);
  chains_.erase(found);
  actions.pop_front();
  std::vector<Action> rest;
  for (Action& action : actions) rest.push_back(std::move(action));
  return rest;
}

}  // namespace baton::controller
