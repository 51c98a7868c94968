// bus::Consumer over one librdkafka consumer with manual assignment. One owner thread.
#pragma once

#include <librdkafka/rdkafka.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/bus/bus.h"
#include "src/bus/kafka/handle.h"

namespace baton::bus::kafka {

struct MessageDeleter {
  void operator()(rd_kafka_message_t* message) const { rd_kafka_message_destroy(message); }
};
using MessagePtr = std::unique_ptr<rd_kafka_message_t, MessageDeleter>;

struct PartitionListDeleter {
  void operator()(rd_kafka_topic_partition_list_t* list) const {
    rd_kafka_topic_partition_list_destroy(list);
  }
};
using PartitionListPtr = std::unique_ptr<rd_kafka_topic_partition_list_t, PartitionListDeleter>;

class KafkaConsumer : public Consumer {
 public:
  static Result<std::unique_ptr<Consumer>> Make(const KafkaOptions& options,
                                                const std::string& name);

  ~KafkaConsumer() override;

  // kUnavailable when a partition's end cannot be learnt within options.assign_timeout; kNotFound
  // when there is no such partition and its end was asked for.
  Status Assign(const std::vector<StartPoint>& starts) override;
  Result<std::optional<Record>> Poll(Nanos timeout) override;
  Status Pause(const std::string& topic, int32_t partition) override;
  Status Resume(const std::string& topic, int32_t partition) override;
  Result<Watermarks> GetWatermarks(const std::string& topic, int32_t partition,
                                   Nanos timeout) override;

 private:
  using Partition = std::pair<std::string, int32_t>;

  explicit KafkaConsumer(Nanos assign_timeout) : assign_timeout_(assign_timeout) {}
  // Has librdkafka ask for a topic that this consumer did not meet before.
  Status LearnTopic(const std::string& name);
  // Replaces kOffsetEnd in `starts` by the offset that the next record will get.
  Status ResolveEnds(std::vector<StartPoint>& starts);
  Status SetPaused(const Partition& partition, bool paused);
  // Nothing for a message that is not a record to hand on.
  Result<std::optional<Record>> Take(const rd_kafka_message_t& message);

  const Nanos assign_timeout_;
  std::map<Partition, int64_t> next_;  // of the assignment: lowest offset not yet handed out
  std::set<Partition> paused_;
  std::set<std::string> learnt_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace baton::bus::kafka
