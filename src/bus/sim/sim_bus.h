// The bus in memory, for property tests and the simulator: same calls in the same order with the
// same seed give the same answers. One thread; nothing ever blocks, and timeouts advance nothing: a
// Poll() with nothing due returns at once, and only the clock that it was given moves time.
//
// Faults on request: records become visible late and delivery reports come later still (order
// within a partition holds, order across partitions does not), the broker goes away and comes back,
// old records are dropped. Duplicates are not made here: the idempotent producer excludes them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/base/rng.h"
#include "src/bus/bus.h"

namespace baton::bus {

struct SimOptions {
  uint64_t seed = 1;
  Nanos visible_delay_max{0};   // from Produce() until consumers can see a record; drawn evenly
  Nanos delivery_delay_max{0};  // on top of it, until the delivery report is due
  int64_t max_record_bytes = 4 << 20;
  int32_t queue_records = 20'000;  // per producer: undelivered or unreported records
};

class SimProducer;
class SimConsumer;

// One owner thread for the bus and all that it makes. `clock` outlives it.
class SimBus : public Bus {
 public:
  SimBus(const Clock& clock, SimOptions options);

  Result<std::unique_ptr<Producer>> NewProducer(const std::string& name) override;
  Result<std::unique_ptr<Consumer>> NewConsumer(const std::string& name) override;
  Status Provision(const std::vector<TopicSettings>& topics, Nanos timeout) override;
  Result<int32_t> PartitionCount(const std::string& topic, Nanos timeout) override;

  // While down nothing is written, reported or read; what was produced waits in its producer.
  void SetDown(bool down) { down_ = down; }
  // Drops the records below `offset`, as retention does.
  Status DropBefore(const std::string& topic, int32_t partition, int64_t offset);
  // The earliest time after now at which a written record becomes visible or a report falls due,
  // as far as the logs know; Max() when there is none. Simulators advance their clock to it.
  MonoTime NextEvent() const;

 private:
  friend class SimProducer;
  friend class SimConsumer;

  struct Entry {
    Record record;
    MonoTime visible;
  };
  struct Log {
    int64_t low = 0;
    std::deque<Entry> entries;  // offsets from `low` on
    MonoTime reported;          // of the last record: reports keep its order
  };
  struct Written {
    int64_t offset = 0;
    MonoTime reported;
  };

  // Null when there is no such partition.
  Log* FindLog(const std::string& topic, int32_t partition);
  Watermarks Marks(const Log& log) const;
  Written Append(Log& log, OutRecord record, int32_t partition);
  Result<int32_t> ChoosePartition(const OutRecord& record);
  Nanos Draw(Nanos max);

  const Clock& clock_;
  const SimOptions options_;
  Rng rng_;
  std::map<std::string, std::vector<Log>> topics_;
  bool down_ = false;
};

}  // namespace baton::bus
