// Copies of terminal records for repeats and reply topics: reads the original back from the results
// topic, one at a time, and hands the copy to be written. Owner: the controller's thread. Bounded
// by the chains that wait for it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "src/base/clock.h"
#include "src/bus/bus.h"
#include "src/ledger/types.h"
#include "src/wire/messages.h"

namespace baton::controller {

class Copies {
 public:
  Copies(std::string results_topic, std::unique_ptr<bus::Consumer> consumer)
      : topic_(std::move(results_topic)), consumer_(std::move(consumer)) {}

  void Add(const Identity& id, const ledger::PublishCopy& copy) { jobs_.push_back({id, copy}); }

  // Writes the copy to `topic`.
  using Emit = std::function<void(const Identity&, const std::string& topic, wire::ResultRecord)>;
  // True when it got something done.
  Result<bool> Step(MonoTime now, ControllerEpoch epoch, const Emit& emit);
  size_t size() const { return jobs_.size(); }

 private:
  struct Job {
    Identity id;
    ledger::PublishCopy copy;
  };
  void Finish(wire::ResultRecord record, const Emit& emit);

  const std::string topic_;
  std::unique_ptr<bus::Consumer> consumer_;
  std::deque<Job> jobs_;
  bool reading_ = false;  // the front one
  MonoTime give_up_;
};

}  // namespace baton::controller
