// An in-memory network for the simulator and for engine tests: transports whose messages can be
// lost, repeated and late by a seed, on any clock. Receivers copy straight out of the owner's pool.
// Thread-safe: ranks may live on different threads, each polling its own pair. With one thread and
// a ManualClock a seed repeats a run exactly.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/base/clock.h"
#include "src/transfer/transfer.h"

namespace baton::transfer {

struct SimNetworkOptions {
  uint64_t seed = 1;
  double loss = 0;    // chance that a message never arrives
  double repeat = 0;  // chance that it arrives twice
  Nanos delay_min{};
  Nanos delay_max{};  // messages overtake each other within the spread
};

class SimNetwork {
 public:
  virtual ~SimNetwork() = default;
  // The pair ends like a process when it is destroyed: its peers are told. The pool in `local` must
  // outlive the pair; the pair may outlive the network object. kInvalidArgument: the pool does not
  // fit the layout.
  virtual Result<TransportPair> Make(const LocalRank& local) = 0;
  // While cut, messages between two instances vanish without notice, both ways.
  virtual void SetCut(const std::string& instance_a, const std::string& instance_b, bool cut) = 0;
};

// The clock outlives the network and all pairs.
std::unique_ptr<SimNetwork> MakeSimNetwork(const Clock* clock, const SimNetworkOptions& options);

}  // namespace baton::transfer
