// Topics of a broker: what is there, and making what is missing. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/bus/bus.h"
#include "src/bus/kafka/handle.h"

namespace baton::bus::kafka {

class Admin {
 public:
  static Result<std::unique_ptr<Admin>> Make(const KafkaOptions& options);

  Status Ping(Nanos timeout);
  Status Provision(const std::vector<TopicSettings>& topics, Nanos timeout);
  Result<int32_t> PartitionCount(const std::string& topic, Nanos timeout);

 private:
  struct TopicState {
    int32_t partitions = 0;
    bool writable = false;  // each partition has a leader
  };
  using TopicStates = std::map<std::string, TopicState>;

  explicit Admin(const KafkaOptions& options) : options_(options) {}
  Result<TopicStates> ReadTopics(Nanos timeout);
  // Asks for topics that are missing; what another process made meanwhile is no error.
  Status Create(const std::vector<TopicSettings>& topics, Nanos timeout);
  Status CreateThroughBroker(const std::vector<TopicSettings>& topics, Nanos timeout);

  const KafkaOptions options_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace baton::bus::kafka
