// A Kafka broker inside this process (librdkafka's mock cluster), reachable from other processes of
// this machine over 127.0.0.1. For jobs that need no durability: everything is gone with the
// process, and past 5 MiB or 100 000 batches in a partition the oldest records are dropped, which
// readers see as kDataLoss. It does not fence, compact, or honour aborted transactions.
#pragma once

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <memory>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/bus/bus.h"
#include "src/bus/kafka/kafka_bus.h"

namespace baton::bus {

// Thread-safe. Outlives the buses that were made with its Options().
class EmbeddedCluster {
 public:
  // Every topic has to be named here or created before first use: the broker makes an unknown
  // topic by itself, with 4 partitions.
  static Result<std::unique_ptr<EmbeddedCluster>> Start(const std::vector<TopicSettings>& topics);
  ~EmbeddedCluster();
  EmbeddedCluster(const EmbeddedCluster&) = delete;
  EmbeddedCluster& operator=(const EmbeddedCluster&) = delete;

  // "127.0.0.1:<port>".
  const std::string& bootstrap() const { return bootstrap_; }
  // For buses of this process: their Provision() creates what is missing. Other processes set
  // `bootstrap` and `embedded` by themselves.
  KafkaOptions Options();
  // Partitions only; topic configuration has no meaning here. kAlreadyExists for a known name.
  Status CreateTopic(const TopicSettings& topic);

  // Closes the listener and all connections; up again on the same port, with all records.
  Status SetDown(bool down);
  // For fault injection.
  rd_kafka_mock_cluster_t* mock() { return mock_; }
  static constexpr int32_t kBrokerId = 1;

 private:
  EmbeddedCluster() = default;

  rd_kafka_t* host_ = nullptr;
  rd_kafka_mock_cluster_t* mock_ = nullptr;
  std::string bootstrap_;
};

}  // namespace baton::bus
