#include "src/bus/kafka/admin.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/bus/kafka/errors.h"

namespace baton::bus::kafka {
namespace {

constexpr Nanos kRetryPause = std::chrono::milliseconds(20);

template <auto destroy>
struct Destroy {
  template <typename T>
  void operator()(T* object) const {
    destroy(object);
  }
};
using NewTopicPtr = std::unique_ptr<rd_kafka_NewTopic_t, Destroy<rd_kafka_NewTopic_destroy>>;
using AdminOptionsPtr =
    std::unique_ptr<rd_kafka_AdminOptions_t, Destroy<rd_kafka_AdminOptions_destroy>>;
using QueuePtr = std::unique_ptr<rd_kafka_queue_t, Destroy<rd_kafka_queue_destroy>>;
using EventPtr = std::unique_ptr<rd_kafka_event_t, Destroy<rd_kafka_event_destroy>>;

Result<NewTopicPtr> MakeNewTopic(const TopicSettings& topic, const KafkaOptions& options) {
  char reason[256] = "";
  NewTopicPtr made(rd_kafka_NewTopic_new(topic.name.c_str(), topic.partitions,
                                         options.replication_factor, reason, sizeof reason));
  if (made == nullptr) {
    return InvalidArgumentError(fmt::format("topic {}: {}", topic.name, reason));
  }
  bool has_limit = false;
  for (const auto& [key, value] : topic.config) {
    has_limit |= key == "max.message.bytes";
    rd_kafka_NewTopic_set_config(made.get(), key.c_str(), value.c_str());
  }
  if (!has_limit) {
    // The broker's default of 1 MiB is below what producers of the bus take.
    const std::string limit = std::to_string(options.max_record_bytes + (64 << 10));
    rd_kafka_NewTopic_set_config(made.get(), "max.message.bytes", limit.c_str());
  }
  return made;
}

Status TopicResult(const rd_kafka_topic_result_t* result) {
  const rd_kafka_resp_err_t error = rd_kafka_topic_result_error(result);
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR || error == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS ||
      IsTransient(error)) {
    return OkStatus();
  }
  const char* text = rd_kafka_topic_result_error_string(result);
  std::string message = fmt::format("topic {}: {}", rd_kafka_topic_result_name(result),
                                    text == nullptr ? rd_kafka_err2str(error) : text);
  switch (error) {
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
      return FailedPreconditionError(std::move(message));
    default:
      return InvalidArgumentError(std::move(message));
  }
}

}  // namespace

Result<std::unique_ptr<Admin>> Admin::Make(const KafkaOptions& options) {
  std::unique_ptr<Admin> admin(new Admin(options));
  ASSIGN_OR_RETURN(admin->handle_, Handle::Make(options, RD_KAFKA_PRODUCER, "admin", nullptr));
  return admin;
}

Status Admin::Ping(Nanos timeout) { return handle_->Metadata(false, nullptr, timeout).status(); }

// Asks for all topics: naming one that is missing makes some brokers create it.
Result<Admin::TopicStates> Admin::ReadTopics(Nanos timeout) {
  ASSIGN_OR_RETURN(const MetadataPtr metadata, handle_->Metadata(true, nullptr, timeout));
  TopicStates states;
  for (int i = 0; i < metadata->topic_cnt; ++i) {
    const rd_kafka_metadata_topic& topic = metadata->topics[i];
    if (topic.partition_cnt == 0) continue;
    TopicState state{.partitions = topic.partition_cnt, .writable = true};
    for (int p = 0; p < topic.partition_cnt; ++p) state.writable &= topic.partitions[p].leader >= 0;
    states.emplace(topic.topic, state);
  }
  return states;
}

Result<int32_t> Admin::PartitionCount(const std::string& topic, Nanos timeout) {
  ASSIGN_OR_RETURN(const TopicStates states, ReadTopics(timeout));
  const auto found = states.find(topic);
  if (found == states.end()) return NotFoundError(fmt::format("there is no topic {}", topic));
  return found->second.partitions;
}

Status Admin::Provision(const std::vector<TopicSettings>& topics, Nanos timeout) {
  const MonoTime until = RealClock().Now() + timeout;
  Status last;  // what the broker's latest answer lacked
  for (;;) {
    Result<TopicStates> read = ReadTopics(until - RealClock().Now());
    // A broker that answered before is not away when the last moment is too short for an answer.
    if (!read.ok()) return last.ok() ? read.status() : last;
    const TopicStates states = std::move(read).value();
    std::vector<TopicSettings> missing;
    std::string waiting;
    for (const TopicSettings& topic : topics) {
      const auto found = states.find(topic.name);
      if (found == states.end()) {
        missing.push_back(topic);
      } else if (found->second.partitions != topic.partitions) {
        return FailedPreconditionError(
            fmt::format("topic {} has {} partitions, but {} are configured", topic.name,
                        found->second.partitions, topic.partitions));
      } else if (!found->second.writable) {
        waiting = topic.name;
      }
    }
    if (missing.empty() && waiting.empty()) return OkStatus();
    last = missing.empty()
               ? UnavailableError(fmt::format("topic {} has no leader yet", waiting))
               : UnavailableError(fmt::format(
                     "topic {} is not there{}", missing[0].name,
                     options_.embedded ? ": the process that hosts the embedded cluster makes it"
                                       : " yet, though it was asked for"));
    if (RealClock().Now() >= until) return last;
    if (!missing.empty()) {
      BATON_RETURN_IF_ERROR(Create(missing, until - RealClock().Now()));
    }
    rd_kafka_poll(handle_->get(), TimeoutMs(kRetryPause));
  }
}

Status Admin::Create(const std::vector<TopicSettings>& topics, Nanos timeout) {
  if (!options_.embedded) return CreateThroughBroker(topics, timeout);
  if (!options_.create_topic) return OkStatus();  // the host will
  for (const TopicSettings& topic : topics) {
    BATON_RETURN_IF_ERROR(options_.create_topic(topic));
  }
  return OkStatus();
}

Status Admin::CreateThroughBroker(const std::vector<TopicSettings>& topics, Nanos timeout) {
  std::vector<NewTopicPtr> owned;
  std::vector<rd_kafka_NewTopic_t*> raw;
  for (const TopicSettings& topic : topics) {
    ASSIGN_OR_RETURN(NewTopicPtr made, MakeNewTopic(topic, options_));
    raw.push_back(made.get());
    owned.push_back(std::move(made));
  }
  const int wait_ms = std::max(1, TimeoutMs(timeout));
  char reason[256] = "";
  AdminOptionsPtr admin_options(
      rd_kafka_AdminOptions_new(handle_->get(), RD_KAFKA_ADMIN_OP_CREATETOPICS));
  rd_kafka_AdminOptions_set_request_timeout(admin_options.get(), wait_ms, reason, sizeof reason);
  rd_kafka_AdminOptions_set_operation_timeout(admin_options.get(), wait_ms, reason, sizeof reason);
  QueuePtr queue(rd_kafka_queue_new(handle_->get()));
  rd_kafka_CreateTopics(handle_->get(), raw.data(), raw.size(), admin_options.get(), queue.get());
  const EventPtr event(rd_kafka_queue_poll(queue.get(), wait_ms + 1000));
  if (event == nullptr) return handle_->Away(RD_KAFKA_RESP_ERR__TIMED_OUT);
  const rd_kafka_resp_err_t error = rd_kafka_event_error(event.get());
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return IsTransient(error)
               ? handle_->Away(error)
               : FailedPreconditionError(
                     fmt::format("creating topics: {}", rd_kafka_event_error_string(event.get())));
  }
  size_t count = 0;
  const rd_kafka_topic_result_t** results =
      rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event.get()), &count);
  for (size_t i = 0; i < count; ++i) BATON_RETURN_IF_ERROR(TopicResult(results[i]));
  return OkStatus();
}

}  // namespace baton::bus::kafka
