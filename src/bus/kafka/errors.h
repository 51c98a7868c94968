// librdkafka's error codes as Status. Pure.
#pragma once

#include <librdkafka/rdkafka.h>

#include <string_view>

#include "src/base/status.h"

namespace baton::bus::kafka {

// Why a record was not delivered, or not taken. `subject` names the record or its topic.
Status ProduceStatus(rd_kafka_resp_err_t error, std::string_view subject);

// What a consumer is told about a partition; OK for what heals by itself.
Status ConsumeStatus(rd_kafka_resp_err_t error, std::string_view subject, std::string_view text);

// Worth asking again within a deadline.
bool IsTransient(rd_kafka_resp_err_t error);

}  // namespace baton::bus::kafka
