// Who is registered, in which life, on which slot, how alive and how loaded. Decides on
// registrations and deaths; writes nothing by itself. Owner: the controller's thread. At most one
// entry per slot (255).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "src/base/clock.h"
#include "src/controller/routing.h"
#include "src/ledger/types.h"
#include "src/wire/messages.h"

namespace baton::controller {

struct LivenessOptions {
  Nanos suspect = std::chrono::seconds(3);
  Nanos dead = std::chrono::seconds(8);
  // Heartbeats with work but without progress for so long: sick, judged as a death. Longer than
  // the slowest single step that a slow CPU backend takes.
  Nanos stall = std::chrono::seconds(60);
  int64_t clock_skew_ms_max = 5'000;
};

class Instances {
 public:
  // `slots` counts partitions of the assign topic; slot 0 carries grants.
  Instances(const LivenessOptions& options, PairingCheck pairing, uint32_t slots,
            uint64_t slot_bytes_max)
      : options_(options),
        pairing_(std::move(pairing)),
        slots_(slots),
        slot_bytes_max_(slot_bytes_max) {}

  struct Decision {
    enum class Kind { kIgnore, kRefuse, kRepeat, kGrant } kind = Kind::kIgnore;
    Status refusal;
    std::optional<ledger::InstanceGone> gone;  // the life that this one replaces
  };
  // kGrant: call Grant() with the end of the slot's partition next.
  Decision Decide(const wire::Registration& registration, int64_t wall_now_ms) const;
  // The free slot that a grant would take; nothing when all are leased.
  std::optional<Slot> FreeSlot(const std::string& name) const;
  // Records the new life. To be written to the ledger before it is told to the instance.
  wire::LedgerInstance Grant(const wire::Registration& registration, Slot slot,
                             int64_t start_offset, ControllerEpoch epoch, MonoTime now);
  void Restore(const wire::LedgerInstance& record, MonoTime now);

  // False when it comes from a life that is over (or was never granted).
  bool OnHeartbeat(const wire::Heartbeat& beat, MonoTime now);
  // Lives that end now, by silence or stall. Each is marked dead.
  std::vector<ledger::InstanceGone> Judge(MonoTime now);
  // Nobody is to blame for the time until now: the controller itself was cut off or just began.
  void ForgiveAll(MonoTime now);
  bool AnySuspect(MonoTime now) const;

  // Assignments held: charged when decided, released by the instance's own last word on them.
  void Charge(const wire::Address& to, wire::Phase phase, uint64_t bytes, bool alone, MonoTime now);
  void Release(const wire::Address& from, wire::Phase phase);

  // For records: the present life of a name, dead or alive; null when unknown.
  const wire::LedgerInstance* Find(const std::string& name) const;
  bool Alive(const std::string& name, InstanceEpoch epoch) const;
  std::vector<const wire::LedgerInstance*> AliveOnes() const;
  std::vector<InstanceView> Views(MonoTime now) const;
  size_t alive_count() const;
  // Some instance serves it, also one that is down for a moment; or none is known yet.
  bool ModelMayBeServed(const std::string& model) const;

 private:
  struct Held {
    uint64_t bytes = 0;
    bool alone = false;
    MonoTime since;
  };
  using HeldKey = std::tuple<Identity, uint32_t, uint8_t>;  // attempt, phase
  struct Life {
    wire::LedgerInstance record;
    MonoTime last_beat;
    MonoTime last_progress;
    wire::Heartbeat beat;
    std::map<HeldKey, Held> held;
    uint64_t bytes = 0;
    std::deque<std::string> replaced;  // incarnations of before
  };
  ledger::InstanceGone Gone(const Life& life, bool crashed) const;
  Status Refusal(const wire::Registration& registration, int64_t wall_now_ms) const;

  const LivenessOptions options_;
  const PairingCheck pairing_;
  const uint32_t slots_;
  const uint64_t slot_bytes_max_;
  std::map<std::string, Life> lives_;
  uint64_t last_epoch_ = 0;  // of instances
  uint64_t last_lease_ = 0;
};

}  // namespace baton::controller
