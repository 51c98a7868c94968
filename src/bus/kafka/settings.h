// From KafkaOptions to a librdkafka configuration. Pure; any thread.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>
#include <string>

#include "src/base/result.h"
#include "src/bus/kafka/kafka_bus.h"

namespace baton::bus::kafka {

struct ConfDeleter {
  void operator()(rd_kafka_conf_t* conf) const { rd_kafka_conf_destroy(conf); }
};
using ConfPtr = std::unique_ptr<rd_kafka_conf_t, ConfDeleter>;

// kInvalidArgument names the setting ("kafka.<key>") and the reason. Values of secrets are in no
// message.
Result<ConfPtr> MakeConf(const KafkaOptions& options, rd_kafka_type_t type,
                         const std::string& client_id);

// True for settings whose value must not be shown.
bool IsSecret(const std::string& key);

}  // namespace baton::bus::kafka
