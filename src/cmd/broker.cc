#include "src/cmd/broker.h"

namespace baton::cmd {

bus::KafkaOptions KafkaOptionsOf(const config::Config& config, const std::string& client_name) {
  bus::KafkaOptions options;
  options.bootstrap = config.bus.bootstrap;
  options.client_name = client_name;
  options.settings = config.bus.kafka;
  options.embedded = config.bus.embedded;
  return options;
}

Result<std::unique_ptr<bus::KafkaBus>> ConnectBus(const config::Config& config,
                                                  const std::string& client_name, Nanos timeout) {
  if (config.bus.bootstrap.empty()) {
    return InvalidArgumentError(
        "which Kafka broker? Name it with --bootstrap HOST:PORT (bus.bootstrap in a file)");
  }
  ASSIGN_OR_RETURN(auto bus, bus::MakeKafkaBus(KafkaOptionsOf(config, client_name)));
  BATON_RETURN_IF_ERROR(bus->Ping(timeout));
  return bus;
}

}  // namespace baton::cmd
