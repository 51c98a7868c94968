#include "src/bus/kafka/errors.h"

#include <fmt/format.h>

#include <string>

namespace baton::bus::kafka {

Status ProduceStatus(rd_kafka_resp_err_t error, std::string_view subject) {
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return OkStatus();
  std::string text = fmt::format("{}: {}", subject, rd_kafka_err2str(error));
  switch (error) {
    case RD_KAFKA_RESP_ERR__QUEUE_FULL:
      return ResourceExhaustedError(std::move(text));
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR__INVALID_ARG:
      return InvalidArgumentError(std::move(text));
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
      return NotFoundError(std::move(text));
    case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
      return DeadlineExceededError(std::move(text));
    case RD_KAFKA_RESP_ERR__PURGE_QUEUE:
    case RD_KAFKA_RESP_ERR__PURGE_INFLIGHT:
    case RD_KAFKA_RESP_ERR__DESTROY:
      return CancelledError(std::move(text));
    case RD_KAFKA_RESP_ERR__FENCED:
    case RD_KAFKA_RESP_ERR_PRODUCER_FENCED:
    case RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH:
      return AbortedError(std::move(text));
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR__FATAL:
    case RD_KAFKA_RESP_ERR__STATE:
      return FailedPreconditionError(std::move(text));
    default:
      return UnavailableError(std::move(text));
  }
}

Status ConsumeStatus(rd_kafka_resp_err_t error, std::string_view subject, std::string_view text) {
  switch (error) {
    // With auto.offset.reset=error both mean that the position is outside what the log holds.
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
      return DataLossError(fmt::format("{}: {}", subject, text));
    case RD_KAFKA_RESP_ERR__BAD_MSG:
    case RD_KAFKA_RESP_ERR__BAD_COMPRESSION:
    case RD_KAFKA_RESP_ERR_INVALID_MSG:
      return DataLossError(fmt::format("{}: {}", subject, text));
    // Reported only after topic.metadata.propagation.max.ms, so the topic is not just new.
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
      return NotFoundError(fmt::format("{}: {}", subject, text));
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
      return FailedPreconditionError(fmt::format("{}: {}", subject, text));
    case RD_KAFKA_RESP_ERR__FATAL:
      return InternalError(fmt::format("{}: {}", subject, text));
    default:
      return OkStatus();
  }
}

bool IsTransient(rd_kafka_resp_err_t error) {
  switch (error) {
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
    case RD_KAFKA_RESP_ERR__WAIT_COORD:
    case RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION:
    case RD_KAFKA_RESP_ERR_NOT_CONTROLLER:
    case RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
    case RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION:
    case RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS:
      return true;
    default:
      return false;
  }
}

}  // namespace baton::bus::kafka
