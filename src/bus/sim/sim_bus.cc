#include "src/bus/sim/sim_bus.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace baton::bus {
namespace {

std::string Name(const std::string& topic, int32_t partition) {
  return fmt::format("{}[{}]", topic, partition);
}

size_t Bytes(const OutRecord& record) {
  size_t bytes = record.key.size() + (record.value ? record.value->size() : 0);
  for (const auto& [name, value] : record.headers) bytes += name.size() + value.size();
  return bytes;
}

Status NoPartition(const std::string& topic, int32_t partition) {
  return NotFoundError("there is no partition " + Name(topic, partition));
}

}  // namespace

class SimProducer : public Producer {
 public:
  SimProducer(SimBus& bus, std::string name) : bus_(bus), name_(std::move(name)) {}

  Status Produce(OutRecord record, DeliveryCallback callback) override {
    const size_t bytes = Bytes(record);
    if (bytes > static_cast<size_t>(bus_.options_.max_record_bytes)) {
      return InvalidArgumentError(fmt::format("{}: a record of {} bytes is over the limit of {}",
                                              record.topic, bytes, bus_.options_.max_record_bytes));
    }
    ASSIGN_OR_RETURN(const int32_t partition, bus_.ChoosePartition(record));
    if (queue_.size() >= static_cast<size_t>(bus_.options_.queue_records)) {
      return ResourceExhaustedError(
          fmt::format("producer {}: {} records are not delivered or not "
                      "reported yet",
                      name_, queue_.size()));
    }
    queue_.push_back(
        {.record = std::move(record), .partition = partition, .callback = std::move(callback)});
    WriteQueued();
    return OkStatus();
  }

  int Poll(Nanos) override {
    WriteQueued();
    int ran = 0;
    // Reports of several partitions may be due out of order; each is run in the queue's order.
    for (size_t i = 0; !bus_.down_ && i < queue_.size();) {
      if (!queue_[i].written || queue_[i].report > bus_.clock_.Now()) {
        ++i;
        continue;
      }
      // The callback may produce: the queue has to be consistent by then.
      const Queued due = std::move(queue_[i]);
      queue_.erase(queue_.begin() + static_cast<ptrdiff_t>(i));
      ++ran;
      if (due.callback) due.callback({OkStatus(), due.partition, due.offset});
    }
    return ran;
  }

  Status Flush(Nanos) override {
    Poll(Nanos(0));
    if (queue_.empty()) return OkStatus();
    return DeadlineExceededError(
        fmt::format("producer {}: {} records are not delivered yet", name_, queue_.size()));
  }

  Status health() const override { return OkStatus(); }

 private:
  struct Queued {
    OutRecord record;
    int32_t partition = 0;
    DeliveryCallback callback;
    bool written = false;
    int64_t offset = -1;
    MonoTime report;
  };

  void WriteQueued() {
    // What is not written yet lies at the end.
    size_t first = queue_.size();
    while (first > 0 && !queue_[first - 1].written) --first;
    for (; !bus_.down_ && first < queue_.size(); ++first) {
      Queued& queued = queue_[first];
      SimBus::Log* log = bus_.FindLog(queued.record.topic, queued.partition);
      CHECK(log != nullptr);
      const auto written = bus_.Append(*log, std::move(queued.record), queued.partition);
      queued.written = true;
      queued.offset = written.offset;
      queued.report = written.reported;
    }
  }

  SimBus& bus_;
  const std::string name_;
  std::deque<Queued> queue_;
};

class SimConsumer : public Consumer {
 public:
  explicit SimConsumer(SimBus& bus) : bus_(bus) {}

  Status Assign(const std::vector<StartPoint>& starts) override {
    std::vector<Position> positions;
    std::set<std::pair<std::string, int32_t>> seen;
    for (const StartPoint& start : starts) {
      if (start.offset < kOffsetBeginning || !seen.emplace(start.topic, start.partition).second) {
        return InvalidArgumentError(fmt::format("{} is assigned twice, or at the offset {}",
                                                Name(start.topic, start.partition), start.offset));
      }
      const SimBus::Log* log = bus_.FindLog(start.topic, start.partition);
      if (log == nullptr) return NoPartition(start.topic, start.partition);
      const Watermarks marks = bus_.Marks(*log);
      Position position{.topic = start.topic, .partition = start.partition, .next = start.offset};
      if (start.offset == kOffsetEnd) position.next = marks.high;
      if (start.offset == kOffsetBeginning) position.next = marks.low;
      positions.push_back(std::move(position));
    }
    positions_ = std::move(positions);
    return OkStatus();
  }

  Result<std::optional<Record>> Poll(Nanos) override {
    if (bus_.down_) return std::optional<Record>();
    std::vector<Position*> ready;
    for (Position& position : positions_) {
      if (position.lost || position.paused) continue;
      const SimBus::Log& log = *bus_.FindLog(position.topic, position.partition);
      const Watermarks marks = bus_.Marks(log);
      if (position.next < marks.low ||
          position.next > log.low + static_cast<int64_t>(log.entries.size())) {
        position.lost = true;
        return DataLossError(fmt::format("{}: the offset {} is not in {}..{}",
                                         Name(position.topic, position.partition), position.next,
                                         marks.low, marks.high));
      }
      if (position.next < marks.high) ready.push_back(&position);
    }
    if (ready.empty()) return std::optional<Record>();
    Position& position = *ready[bus_.rng_.Below(ready.size())];
    const SimBus::Log& log = *bus_.FindLog(position.topic, position.partition);
    const size_t index = static_cast<size_t>(position.next++ - log.low);
    return std::optional<Record>(log.entries[index].record);
  }

  Status Pause(const std::string& topic, int32_t partition) override {
    return SetPaused(topic, partition, true);
  }
  Status Resume(const std::string& topic, int32_t partition) override {
    return SetPaused(topic, partition, false);
  }

  Result<Watermarks> GetWatermarks(const std::string& topic, int32_t partition, Nanos) override {
    if (bus_.down_) return UnavailableError("the simulated broker is away");
    const SimBus::Log* log = bus_.FindLog(topic, partition);
    if (log == nullptr) return NoPartition(topic, partition);
    return bus_.Marks(*log);
  }

 private:
  struct Position {
    std::string topic;
    int32_t partition = 0;
    int64_t next = 0;
    bool paused = false;
    bool lost = false;  // told once; nothing more until the next Assign()
  };

  Status SetPaused(const std::string& topic, int32_t partition, bool paused) {
    for (Position& position : positions_) {
      if (position.topic != topic || position.partition != partition) continue;
      position.paused = paused;
      return OkStatus();
    }
    return NotFoundError(Name(topic, partition) + " is not assigned");
  }

  SimBus& bus_;
  std::vector<Position> positions_;
};

SimBus::SimBus(const Clock& clock, SimOptions options)
    : clock_(clock), options_(options), rng_(options.seed) {}

Result<std::unique_ptr<Producer>> SimBus::NewProducer(const std::string& name) {
  return std::unique_ptr<Producer>(std::make_unique<SimProducer>(*this, name));
}

Result<std::unique_ptr<Consumer>> SimBus::NewConsumer(const std::string&) {
  return std::unique_ptr<Consumer>(std::make_unique<SimConsumer>(*this));
}

Status SimBus::Provision(const std::vector<TopicSettings>& topics, Nanos) {
  if (down_) return UnavailableError("the simulated broker is away");
  for (const TopicSettings& topic : topics) {
    if (topic.partitions <= 0) {
      return InvalidArgumentError(
          fmt::format("topic {}: {} partitions", topic.name, topic.partitions));
    }
    const auto [found, fresh] =
        topics_.try_emplace(topic.name, static_cast<size_t>(topic.partitions));
    if (!fresh && found->second.size() != static_cast<size_t>(topic.partitions)) {
      return FailedPreconditionError(
          fmt::format("topic {} has {} partitions, but {} are configured", topic.name,
                      found->second.size(), topic.partitions));
    }
  }
  return OkStatus();
}

Result<int32_t> SimBus::PartitionCount(const std::string& topic, Nanos) {
  if (down_) return UnavailableError("the simulated broker is away");
  const auto found = topics_.find(topic);
  if (found == topics_.end()) return NotFoundError(fmt::format("there is no topic {}", topic));
  return static_cast<int32_t>(found->second.size());
}

Status SimBus::DropBefore(const std::string& topic, int32_t partition, int64_t offset) {
  Log* log = FindLog(topic, partition);
  if (log == nullptr) return NoPartition(topic, partition);
  for (; log->low < offset && !log->entries.empty(); ++log->low) log->entries.pop_front();
  return OkStatus();
}

MonoTime SimBus::NextEvent() const {
  const MonoTime now = clock_.Now();
  MonoTime next = MonoTime::Max();
  for (const auto& [name, logs] : topics_) {
    for (const Log& log : logs) {
      // Both times only grow along a log, so looking from the end stops early.
      for (auto entry = log.entries.rbegin(); entry != log.entries.rend(); ++entry) {
        if (entry->visible <= now) break;
        next = std::min(next, entry->visible);
      }
      if (log.reported > now) next = std::min(next, log.reported);
    }
  }
  return next;
}

SimBus::Log* SimBus::FindLog(const std::string& topic, int32_t partition) {
  const auto found = topics_.find(topic);
  if (found == topics_.end() || partition < 0 ||
      static_cast<size_t>(partition) >= found->second.size()) {
    return nullptr;
  }
  return &found->second[static_cast<size_t>(partition)];
}

Watermarks SimBus::Marks(const Log& log) const {
  const MonoTime now = clock_.Now();
  int64_t high = log.low + static_cast<int64_t>(log.entries.size());
  for (auto entry = log.entries.rbegin(); entry != log.entries.rend(); ++entry, --high) {
    if (entry->visible <= now) break;
  }
  return {.low = log.low, .high = high};
}

SimBus::Written SimBus::Append(Log& log, OutRecord record, int32_t partition) {
  MonoTime visible = clock_.Now() + Draw(options_.visible_delay_max);
  if (!log.entries.empty()) visible = std::max(visible, log.entries.back().visible);
  log.reported = std::max(log.reported, visible + Draw(options_.delivery_delay_max));
  const int64_t offset = log.low + static_cast<int64_t>(log.entries.size());
  log.entries.push_back({.record = {.topic = std::move(record.topic),
                                    .partition = partition,
                                    .offset = offset,
                                    .timestamp_ms = clock_.WallNow().ms,
                                    .key = std::move(record.key),
                                    .value = std::move(record.value),
                                    .headers = std::move(record.headers)},
                         .visible = visible});
  return {.offset = offset, .reported = log.reported};
}

Result<int32_t> SimBus::ChoosePartition(const OutRecord& record) {
  const auto found = topics_.find(record.topic);
  if (found == topics_.end()) return NoPartition(record.topic, record.partition);
  const auto count = static_cast<int32_t>(found->second.size());
  if (record.partition >= count) return NoPartition(record.topic, record.partition);
  if (record.partition >= 0) return record.partition;
  if (!record.key.empty()) return PartitionOfKey(record.key, count);
  return static_cast<int32_t>(rng_.Below(static_cast<uint64_t>(count)));
}

Nanos SimBus::Draw(Nanos max) {
  if (max <= Nanos::zero()) return Nanos::zero();
  return Nanos(static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(max.count()) + 1)));
}

}  // namespace baton::bus
