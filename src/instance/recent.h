// What this instance answered lately, so that a repeated assignment gets its latest event and never
// a second run (invariant 2). Bounded: the oldest finished run is forgotten first. One owner
// thread.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "src/base/ids.h"
#include "src/wire/messages.h"

namespace baton::instance {

// One run: a phase of an attempt.
struct RunKey {
  Identity id;
  Attempt attempt;
  wire::Phase phase = wire::Phase::kFull;
  friend bool operator==(const RunKey&, const RunKey&) = default;
};

struct RunKeyHash {
  size_t operator()(const RunKey& key) const {
    return std::hash<Identity>()(key.id) * 1'000'003 + key.attempt.value * 4 +
           static_cast<size_t>(key.phase);
  }
};

class RecentRuns {
 public:
  explicit RecentRuns(size_t finished_max) : finished_max_(finished_max) {}

  // False when the run is known already.
  bool Start(const RunKey& key, uint64_t exec_id);
  void Finish(const RunKey& key, wire::Event event);

  struct Run {
    uint64_t exec_id = 0;
    std::optional<wire::Event> last_event;  // set once finished
    std::optional<uint64_t> lease;          // of the hand-off it offered
  };
  // Null when unknown. Valid until the next Start or Finish.
  const Run* Find(const RunKey& key) const;
  size_t size() const { return runs_.size(); }

 private:
  size_t finished_max_;
  std::unordered_map<RunKey, Run, RunKeyHash> runs_;
  std::list<RunKey> finished_;  // oldest first
};

}  // namespace baton::instance
