// The bus over librdkafka 2.0.2: any Kafka broker from 4.0 (4.0.1 with Kerberos), or an
// EmbeddedCluster. Each producer and consumer owns one librdkafka handle with its own threads, so
// make a few per process and keep them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/bus/bus.h"

namespace baton::bus {

struct KafkaOptions {
  std::string bootstrap;              // "host:port[,host:port]"
  std::string client_name = "baton";  // client.id is "<client_name>-<name of the handle>"
  // Handed to librdkafka verbatim ("ssl.ca.location" here is "kafka.ssl.ca.location" to users).
  // They win over our defaults; those that the implementation depends on are refused.
  std::map<std::string, std::string> settings;

  int64_t max_record_bytes = 4 << 20;  // key + value + headers of one record
  int32_t queue_records = 20'000;      // per producer: undelivered or unreported records
  int64_t queue_bytes = 64 << 20;      // per producer
  Millis delivery_timeout{30'000};     // then the record's callback gets kDeadlineExceeded
  Millis assign_timeout{10'000};       // for Assign() to learn where a partition ends
  int32_t replication_factor = -1;     // of topics that Provision() makes; -1: the broker's default

  // The embedded cluster sleeps the whole fetch wait when it has no data, so the wait is the
  // latency there (2 ms); a real broker answers as soon as data arrive (100 ms is then cheap).
  bool embedded = false;
  std::optional<Millis> fetch_wait;
  // Set by the process that hosts the embedded cluster, which has no CreateTopics request. Other
  // processes leave it empty: their Provision() waits for the host's topics and compares counts.
  std::function<Status(const TopicSettings&)> create_topic;
};

// Thread-safe.
class KafkaBus : public Bus {
 public:
  // For start-up checks: kUnavailable "broker <bootstrap> is away: <why>" after `timeout`.
  virtual Status Ping(Nanos timeout) = 0;
};

// kInvalidArgument names the setting that is unknown, refused or has a bad value. Needs no broker:
// one that is away is waited for by the handles, for ever.
Result<std::unique_ptr<KafkaBus>> MakeKafkaBus(KafkaOptions options);

}  // namespace baton::bus
