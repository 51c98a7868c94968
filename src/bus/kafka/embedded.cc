#include "src/bus/kafka/embedded.h"

#include <fmt/format.h>

#include "src/base/log.h"

namespace baton::bus {
namespace {

void OnLog(const rd_kafka_t*, int, const char* kind, const char* text) {
  LOG(kDebug, "embedded kafka: {} {}", kind, text);
}

}  // namespace

Result<std::unique_ptr<EmbeddedCluster>> EmbeddedCluster::Start(
    const std::vector<TopicSettings>& topics) {
  std::unique_ptr<EmbeddedCluster> cluster(new EmbeddedCluster());
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  rd_kafka_conf_set_log_cb(conf, OnLog);
  char reason[256] = "";
  // A cluster made beside its host instead takes a second to end.
  rd_kafka_conf_set(conf, "test.mock.num.brokers", "1", reason, sizeof reason);
  cluster->host_ = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason);
  if (cluster->host_ == nullptr) {
    rd_kafka_conf_destroy(conf);
    return InternalError(fmt::format("embedded kafka: {}", reason));
  }
  cluster->mock_ = rd_kafka_handle_mock_cluster(cluster->host_);
  if (cluster->mock_ == nullptr) {
    return UnavailableError("embedded kafka: cannot listen on 127.0.0.1");
  }
  cluster->bootstrap_ = rd_kafka_mock_cluster_bootstraps(cluster->mock_);
  for (const TopicSettings& topic : topics) BATON_RETURN_IF_ERROR(cluster->CreateTopic(topic));
  LOG(kInfo, "embedded kafka listens on {}", cluster->bootstrap_);
  return cluster;
}

EmbeddedCluster::~EmbeddedCluster() {
  if (host_ != nullptr) rd_kafka_destroy(host_);
}

KafkaOptions EmbeddedCluster::Options() {
  KafkaOptions options;
  options.bootstrap = bootstrap_;
  options.embedded = true;
  options.create_topic = [this](const TopicSettings& topic) { return CreateTopic(topic); };
  return options;
}

Status EmbeddedCluster::CreateTopic(const TopicSettings& topic) {
  const rd_kafka_resp_err_t error =
      rd_kafka_mock_topic_create(mock_, topic.name.c_str(), topic.partitions, 1);
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return OkStatus();
  std::string text = fmt::format("topic {}: {}", topic.name, rd_kafka_err2str(error));
  return error == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS ? AlreadyExistsError(std::move(text))
                                                         : InvalidArgumentError(std::move(text));
}

Status EmbeddedCluster::SetDown(bool down) {
  const rd_kafka_resp_err_t error = down ? rd_kafka_mock_broker_set_down(mock_, kBrokerId)
                                         : rd_kafka_mock_broker_set_up(mock_, kBrokerId);
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return OkStatus();
  return InternalError(fmt::format("embedded kafka: {}", rd_kafka_err2str(error)));
}

}  // namespace baton::bus
