#include "src/cmd/broker.h"

#include <utility>

#include "src/base/log.h"
#include "src/wire/topics.h"

namespace baton::cmd {

bus::KafkaOptions KafkaOptionsOf(const config::Config& config, const std::string& client_name) {
  bus::KafkaOptions options;
  options.bootstrap = config.bus.bootstrap;
  options.client_name = client_name;
  options.settings = config.bus.kafka;
  options.embedded = config.bus.embedded;
  return options;
}

std::vector<bus::TopicSettings> TopicsOf(const config::Config& config) {
  std::vector<bus::TopicSettings> topics;
  for (wire::TopicSpec& topic : wire::Topics(config.bus.prefix).All()) {
    topics.push_back({std::move(topic.name), topic.partitions, std::move(topic.config)});
  }
  return topics;
}

Result<std::unique_ptr<bus::KafkaBus>> ConnectBus(const config::Config& config,
                                                  const std::string& client_name) {
  if (config.bus.bootstrap.empty()) {
    return InvalidArgumentError(
        "which Kafka broker? Name it with --bootstrap HOST:PORT (bus.bootstrap in a file)");
  }
  return bus::MakeKafkaBus(KafkaOptionsOf(config, client_name));
}

Status StartLogAndReachBroker(const config::Config& config, const std::string& who, Nanos timeout) {
  {
    InitLog(who, LogLevel::kError);
    ASSIGN_OR_RETURN(const auto bus, ConnectBus(config, who + "-check"));
    BATON_RETURN_IF_ERROR(bus->Ping(timeout));
  }
  // No thread is left that could log.
  LogLevel level = LogLevel::kInfo;
  ParseLogLevel(config.log.level, &level);
  InitLog(who, level);
  return OkStatus();
}

}  // namespace baton::cmd
