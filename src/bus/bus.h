// The one way to records on topics. Three implementations: kafka/ (librdkafka, any broker
// from 4.0), kafka/ again over an embedded cluster (librdkafka's mock, for the default job), and
// sim/ (in memory, deterministic, one thread). The same conformance tests run on all of them.
//
// Semantics shared by all: partitions are ordered logs; a keyed record without a partition goes to
// murmur2(key) % partitions, as Kafka's own clients do; delivery callbacks run inside Poll() or
// Flush() of the producer that took the record, on the calling thread; a record whose delivery was
// reported OK is visible to every consumer that reads past its offset.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/base/status.h"

namespace baton::bus {

using Headers = std::vector<std::pair<std::string, std::string>>;

inline constexpr int32_t kPartitionByKey = -1;
inline constexpr int64_t kOffsetBeginning = -2;
inline constexpr int64_t kOffsetEnd = -1;

struct OutRecord {
  std::string topic;
  int32_t partition = kPartitionByKey;
  std::string key;
  std::optional<std::string> value;  // empty: a tombstone
  Headers headers;
};

struct Record {
  std::string topic;
  int32_t partition = 0;
  int64_t offset = 0;
  int64_t timestamp_ms = 0;
  std::string key;
  std::optional<std::string> value;
  Headers headers;
};

struct Delivery {
  Status status;
  int32_t partition = -1;
  int64_t offset = -1;
};
using DeliveryCallback = std::function<void(const Delivery&)>;

// Idempotent producer. One owner thread.
class Producer {
 public:
  virtual ~Producer() = default;
  // kResourceExhausted when the bounded queue is full: Poll() and try again within the deadline.
  // kInvalidArgument when the record is larger than the bus takes. `callback` may be empty.
  virtual Status Produce(OutRecord record, DeliveryCallback callback) = 0;
  // Runs due callbacks; waits for at most `timeout` for the first. Returns how many ran.
  virtual int Poll(Nanos timeout) = 0;
  // Waits until everything is delivered or refused; kDeadlineExceeded says how many are left.
  virtual Status Flush(Nanos timeout) = 0;
  // Not OK once the producer is of no further use (fatal error): make a new one.
  virtual Status health() const = 0;
};

struct StartPoint {
  std::string topic;
  int32_t partition = 0;
  int64_t offset = kOffsetBeginning;  // or kOffsetEnd
};

struct Watermarks {
  int64_t low = 0;   // oldest offset held
  int64_t high = 0;  // next offset to be written
};

// Manual assignment; no groups. One owner thread.
class Consumer {
 public:
  virtual ~Consumer() = default;
  // Replaces the assignment. kOffsetEnd is resolved before this returns: what is produced after
  // the return is seen.
  virtual Status Assign(const std::vector<StartPoint>& starts) = 0;
  // The next record, or nothing within `timeout`. Errors that heal by themselves (a broker away)
  // are logged and waited out; kDataLoss when an offset is no longer there: the caller decides.
  virtual Result<std::optional<Record>> Poll(Nanos timeout) = 0;
  // A paused partition delivers nothing; Poll() still has to be called.
  virtual Status Pause(const std::string& topic, int32_t partition) = 0;
  virtual Status Resume(const std::string& topic, int32_t partition) = 0;
  virtual Result<Watermarks> GetWatermarks(const std::string& topic, int32_t partition,
                                           Nanos timeout) = 0;
};

struct TopicSettings {
  std::string name;
  int32_t partitions = 1;
  std::vector<std::pair<std::string, std::string>> config;
};

// Thread-safe. Producers and consumers must be destroyed before it.
class Bus {
 public:
  virtual ~Bus() = default;
  // `name` becomes part of client.id and of log lines.
  virtual Result<std::unique_ptr<Producer>> NewProducer(const std::string& name) = 0;
  virtual Result<std::unique_ptr<Consumer>> NewConsumer(const std::string& name) = 0;
  // Creates what is missing and waits until it can be written; a topic that exists with another
  // partition count is kFailedPrecondition naming both.
  virtual Status Provision(const std::vector<TopicSettings>& topics, Nanos timeout) = 0;
  virtual Result<int32_t> PartitionCount(const std::string& topic, Nanos timeout) = 0;
};

// Kafka's murmur2 partitioner, so that clients in other languages agree with us.
int32_t PartitionOfKey(const std::string& key, int32_t partitions);

}  // namespace baton::bus
