// From configuration to a bus that answers. One thread.
#pragma once

#include <memory>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/bus/kafka/kafka_bus.h"
#include "src/config/config.h"

namespace baton::cmd {

bus::KafkaOptions KafkaOptionsOf(const config::Config& config, const std::string& client_name);

// kInvalidArgument: no broker named, or a bad kafka.* setting. kUnavailable: nobody answers there
// within `timeout`.
Result<std::unique_ptr<bus::KafkaBus>> ConnectBus(const config::Config& config,
                                                  const std::string& client_name,
                                                  Nanos timeout = std::chrono::seconds(5));

}  // namespace baton::cmd
