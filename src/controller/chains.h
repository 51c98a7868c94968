// Carries out effects: those of one identity in order, each after the one before is acknowledged;
// different identities do not wait for each other. Two ledger records of one key that have not
// been started become one, which is how "context done" and "assigned to generation" cost one write.
// Owner: the controller's thread. Bounded by the requests in flight.
#pragma once

#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "src/ledger/types.h"

namespace baton::controller {

class Chains {
 public:
  void Add(ledger::Effects effects);

  // Starts what can be started. `start` returns true when the action is done with, false when
  // Done() or Refused() will follow. It may call Add(), not Done().
  using Start = std::function<bool(const Identity&, const ledger::Action&)>;
  void Pump(const Start& start);

  // The action that waits was acknowledged.
  void Done(const Identity& id);
  // It can never be carried out. What was to follow from it is taken out and returned.
  std::vector<ledger::Action> Refused(const Identity& id);

  size_t size() const { return chains_.size(); }

 private:
  struct Chain {
    std::deque<ledger::Action> actions;
    bool waiting = false;  // for the front one
    bool queued = false;   // in runnable_
  };
  void MakeRunnable(const Identity& id, Chain& chain);

  std::unordered_map<Identity, Chain> chains_;
  std::deque<Identity> runnable_;
};

}  // namespace baton::controller
