// From configuration to a bus that answers. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/bus/kafka/kafka_bus.h"
#include "src/config/config.h"

namespace baton::cmd {

bus::KafkaOptions KafkaOptionsOf(const config::Config& config, const std::string& client_name);

// Every topic of the cluster with this prefix.
std::vector<bus::TopicSettings> TopicsOf(const config::Config& config);

// Makes the bus; waits for nobody. kInvalidArgument: no broker named, or a bad kafka.* setting.
Result<std::unique_ptr<bus::KafkaBus>> ConnectBus(const config::Config& config,
                                                  const std::string& client_name);

// The first thing that a command on a cluster does: InitLog as `who`, once it is known that the
// broker answers. kUnavailable names a broker that does not, within `timeout`; librdkafka's own
// lines about it are left out, so that the user reads one.
Status StartLogAndReachBroker(const config::Config& config, const std::string& who,
                              Nanos timeout = std::chrono::seconds(5));

}  // namespace baton::cmd
