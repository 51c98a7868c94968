// What a controller does before anything else: read the ledger, claim the next epoch in it, read on
// to the claim, and read the results from their checkpoint to their end, so that it knows what was
// published and not yet marked done. A ledger record counts only if its epoch is that of the last
// claim before it. Driven by Step(); the caller polls the producer between steps.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/bus/bus.h"
#include "src/controller/instances.h"
#include "src/controller/positions.h"
#include "src/controller/reader.h"
#include "src/ledger/ledger.h"
#include "src/wire/topics.h"

namespace baton::controller {

class Recovery {
 public:
  struct Into {  // all outlive it
    ledger::Ledger* ledger = nullptr;
    Instances* instances = nullptr;
    Positions* inputs = nullptr;
    Positions* results = nullptr;
  };
  Recovery(const wire::Topics& topics, const std::string& host, const std::string& uuid,
           bus::Bus* bus, bus::Producer* producer, Clock* clock, const Into& into)
      : topics_(topics),
        host_(host),
        uuid_(uuid),
        bus_(bus),
        producer_(producer),
        clock_(clock),
        into_(into) {}

  // True when finished. Polls for at most `wait`.
  Result<bool> Step(Nanos wait);
  ControllerEpoch epoch() const { return epoch_; }
  // Of terminal records that were not yet marked done.
  ledger::Effects TakeEffects() { return std::move(effects_); }
  uint64_t stale_records() const { return stale_; }
  uint64_t records() const { return records_; }

 private:
  enum class Stage { kOpen, kLedger, kClaim, kOpenResults, kResults, kFinished };
  Status Open();
  Status ReadLedger(Nanos wait);
  Status Claim();
  Status OpenResults();
  Status ReadResults(Nanos wait);
  void TakeLedgerRecord(const bus::Record& record);

  const wire::Topics topics_;
  const std::string host_;
  const std::string uuid_;
  bus::Bus* const bus_;
  bus::Producer* const producer_;
  Clock* const clock_;
  const Into into_;

  Stage stage_ = Stage::kOpen;
  std::optional<Reader> reader_;
  int64_t next_ = 0;
  int64_t high_ = 0;
  bool claimed_ = false;
  std::optional<bus::Delivery> claim_;
  ControllerEpoch epoch_;                                   // ours
  ControllerEpoch highest_;                                 // of any claim
  ControllerEpoch current_;                                 // of the last claim read
  std::map<int32_t, std::pair<int64_t, int64_t>> results_;  // partition: next, end
  ledger::Effects effects_;
  uint64_t stale_ = 0;
  uint64_t records_ = 0;
};

}  // namespace baton::controller
