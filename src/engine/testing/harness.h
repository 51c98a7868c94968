// One engine with its ranks, backends and transports, driven turn by turn on a clock that stands
// still: every run of a seed is the same. For tests. One thread.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "src/engine/engine_core.h"
#include "src/engine/testing/delayed_backend.h"
#include "src/engine/testing/memory_transport.h"
#include "src/engine/testing/tiny_backend.h"

namespace baton::engine::testing {

// Ranks of this process whose reports can be held back or falsified.
class FaultyRanks : public LocalRanks {
 public:
  using LocalRanks::LocalRanks;
  Result<std::vector<RankReport>> Poll() override;

  std::set<uint32_t> mute_votes;    // ranks whose votes never arrive
  std::set<uint32_t> slow_votes;    // ranks whose votes wait until they are let go
  std::set<uint32_t> wrong_digest;  // ranks that executed something else

 private:
  std::vector<std::pair<uint32_t, Vote>> held_;
};

struct HarnessOptions {
  ExecOptions exec;
  TinyOptions tiny;
  uint32_t ranks = 1;
  uint32_t delay = 0;  // of DelayedBackend
  uint64_t seed = 1;
  std::string instance = "one";
  MemoryFabric* fabric = nullptr;  // null: no hand-off
  ManualClock* clock = nullptr;    // null: its own
};

class Harness {
 public:
  explicit Harness(const HarnessOptions& options);

  // CHECKs that the request is valid.
  ExecId Add(ExecRequest request);
  void Cancel(ExecId id) { core->Cancel(id, clock->Now()); }
  // One turn; true when anything moved.
  bool Turn() { return core->Turn(clock->Now()); }
  // Turns until nothing is held any more; false when that takes more than `turns_max` turns.
  bool Drain(int turns_max = 20000);

  const ExecResponse* Final(ExecId id) const;
  // All tokens and text of a request so far, parts of a stream joined.
  std::vector<int32_t> Tokens(ExecId id) const;
  // "" when every block is free or cached and no rank holds a sequence; else what is left.
  std::string Leaks() const;
  uint64_t blocks_moved() const;

  const HarnessOptions options;
  ManualClock own_clock;
  ManualClock* clock;
  std::vector<std::unique_ptr<TinyBackend>> tiny;
  std::vector<std::unique_ptr<DelayedBackend>> delayed;
  std::vector<std::unique_ptr<MemorySource>> sources;
  std::vector<std::unique_ptr<MemorySink>> sinks;
  std::vector<RankWorker*> workers;
  std::unique_ptr<FaultyRanks> ranks;
  std::unique_ptr<EngineCore> core;
  std::map<ExecId, std::vector<ExecResponse>> responses;

 private:
  ExecId next_ = 1;
};

}  // namespace baton::engine::testing
