#include "src/bus/kafka/consumer.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/log.h"
#include "src/bus/kafka/errors.h"

namespace baton::bus::kafka {
namespace {

constexpr Nanos kLearnTimeout = std::chrono::milliseconds(200);
// Between two tries at something that a broker refused for the moment.
constexpr Nanos kRetryPause = std::chrono::milliseconds(20);

std::string Name(const std::string& topic, int32_t partition) {
  return fmt::format("{}[{}]", topic, partition);
}

PartitionListPtr MakeList(size_t size) {
  return PartitionListPtr(rd_kafka_topic_partition_list_new(static_cast<int>(size)));
}

void Add(rd_kafka_topic_partition_list_t* list, const std::string& topic, int32_t partition,
         int64_t offset) {
  rd_kafka_topic_partition_list_add(list, topic.c_str(), partition)->offset = offset;
}

Headers ReadHeaders(const rd_kafka_message_t& message) {
  Headers headers;
  rd_kafka_headers_t* raw = nullptr;
  if (rd_kafka_message_headers(&message, &raw) != RD_KAFKA_RESP_ERR_NO_ERROR) return headers;
  headers.reserve(rd_kafka_header_cnt(raw));
  const char* name = nullptr;
  const void* value = nullptr;
  size_t size = 0;
  for (size_t i = 0;
       rd_kafka_header_get_all(raw, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR; ++i) {
    headers.emplace_back(name, value == nullptr
                                   ? std::string()
                                   : std::string(static_cast<const char*>(value), size));
  }
  return headers;
}

Record ReadRecord(const rd_kafka_message_t& message) {
  Record record{.topic = rd_kafka_topic_name(message.rkt),
                .partition = message.partition,
                .offset = message.offset,
                .timestamp_ms = rd_kafka_message_timestamp(&message, nullptr)};
  if (message.key != nullptr) {
    record.key.assign(static_cast<const char*>(message.key), message.key_len);
  }
  if (message.payload != nullptr) {
    record.value.emplace(static_cast<const char*>(message.payload), message.len);
  }
  record.headers = ReadHeaders(message);
  return record;
}

}  // namespace

Result<std::unique_ptr<Consumer>> KafkaConsumer::Make(const KafkaOptions& options,
                                                      const std::string& name) {
  std::unique_ptr<KafkaConsumer> consumer(new KafkaConsumer(options.assign_timeout));
  ASSIGN_OR_RETURN(consumer->handle_, Handle::Make(options, RD_KAFKA_CONSUMER, name, nullptr));
  return std::unique_ptr<Consumer>(std::move(consumer));
}

// librdkafka leaks the topic of a partition that is still assigned when its handle goes, at least
// while the broker was never reached.
KafkaConsumer::~KafkaConsumer() {
  if (handle_ != nullptr) rd_kafka_assign(handle_->get(), nullptr);
}

Status KafkaConsumer::ResolveEnds(std::vector<StartPoint>& starts) {
  const MonoTime until = RealClock().Now() + assign_timeout_;
  for (;;) {
    std::vector<StartPoint*> open;
    for (StartPoint& start : starts) {
      if (start.offset == kOffsetEnd) open.push_back(&start);
    }
    if (open.empty()) return OkStatus();
    // One request for each broker, however many partitions there are.
    PartitionListPtr list = MakeList(open.size());
    for (const StartPoint* start : open) {
      Add(list.get(), start->topic, start->partition, RD_KAFKA_OFFSET_END);
    }
    const Nanos left = until - RealClock().Now();
    const rd_kafka_resp_err_t all =
        rd_kafka_offsets_for_times(handle_->get(), list.get(), std::max(1, TimeoutMs(left)));
    rd_kafka_resp_err_t failed = all;
    if (all != RD_KAFKA_RESP_ERR_NO_ERROR && !IsTransient(all)) {
      return ProduceStatus(all, "asking for the ends of partitions");
    }
    for (size_t i = 0; all == RD_KAFKA_RESP_ERR_NO_ERROR && i < open.size(); ++i) {
      const rd_kafka_topic_partition_t& answer = list->elems[i];
      if (answer.err == RD_KAFKA_RESP_ERR_NO_ERROR && answer.offset >= 0) {
        open[i]->offset = answer.offset;
      } else if (answer.err != RD_KAFKA_RESP_ERR_NO_ERROR && !IsTransient(answer.err)) {
        return ProduceStatus(answer.err, Name(open[i]->topic, open[i]->partition));
      } else {
        failed = answer.err;
      }
    }
    if (failed == RD_KAFKA_RESP_ERR_NO_ERROR) continue;
    if (RealClock().Now() + kRetryPause >= until) {
      return handle_->Away(failed).WithContext("end of " +
                                               Name(open[0]->topic, open[0]->partition));
    }
    rd_kafka_poll(handle_->get(), TimeoutMs(kRetryPause));
  }
}

Status KafkaConsumer::LearnTopic(const std::string& name) {
  rd_kafka_topic_t* topic = handle_->Topic(name);
  if (topic == nullptr) return InvalidArgumentError(fmt::format("\"{}\" cannot be a topic", name));
  if (!learnt_.insert(name).second) return OkStatus();
  // A partition whose leader is unknown when it is assigned is looked at again only after half a
  // second. With the broker away this is no use and no harm.
  IgnoreStatus(handle_->Metadata(false, topic, kLearnTimeout).status());
  return OkStatus();
}

Status KafkaConsumer::Assign(const std::vector<StartPoint>& wanted) {
  std::vector<StartPoint> starts = wanted;
  std::set<Partition> seen;
  for (const StartPoint& start : starts) {
    if (start.offset < kOffsetBeginning || !seen.emplace(start.topic, start.partition).second) {
      return InvalidArgumentError(fmt::format("{} is assigned twice, or at the offset {}",
                                              Name(start.topic, start.partition), start.offset));
    }
    BATON_RETURN_IF_ERROR(LearnTopic(start.topic));
  }
  BATON_RETURN_IF_ERROR(ResolveEnds(starts));
  // librdkafka keeps a partition paused from one assignment to the next.
  while (!paused_.empty()) BATON_RETURN_IF_ERROR(SetPaused(*paused_.begin(), false));
  PartitionListPtr list = MakeList(starts.size());
  next_.clear();
  for (const StartPoint& start : starts) {
    Add(list.get(), start.topic, start.partition, start.offset);
    next_[{start.topic, start.partition}] = std::max<int64_t>(start.offset, 0);
  }
  const rd_kafka_resp_err_t error = rd_kafka_assign(handle_->get(), list.get());
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return OkStatus();
  return InternalError(
      fmt::format("consumer {}: assign: {}", handle_->name(), rd_kafka_err2str(error)));
}

Result<std::optional<Record>> KafkaConsumer::Poll(Nanos timeout) {
  const MonoTime until = RealClock().Now() + timeout;
  for (Nanos left = timeout;; left = until - RealClock().Now()) {
    const MessagePtr message(rd_kafka_consumer_poll(handle_->get(), TimeoutMs(left)));
    if (message != nullptr) {
      ASSIGN_OR_RETURN(std::optional<Record> record, Take(*message));
      if (record) return record;
    }
    if (left <= Nanos::zero()) return std::optional<Record>();
  }
}

Result<std::optional<Record>> KafkaConsumer::Take(const rd_kafka_message_t& message) {
  if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
    const char* reason = rd_kafka_message_errstr(&message);
    const std::string subject = message.rkt == nullptr
                                    ? handle_->name()
                                    : Name(rd_kafka_topic_name(message.rkt), message.partition);
    BATON_RETURN_IF_ERROR(ConsumeStatus(message.err, subject, reason));
    LOG(kDebug, "kafka {}: {} (waiting)", handle_->name(), reason);
    return std::optional<Record>();
  }
  const auto next = next_.find({rd_kafka_topic_name(message.rkt), message.partition});
  // Of an earlier assignment, or handed out already: after a pause librdkafka may fetch from a
  // little before the place where it stopped.
  if (next == next_.end() || message.offset < next->second) return std::optional<Record>();
  next->second = message.offset + 1;
  return std::optional<Record>(ReadRecord(message));
}

Status KafkaConsumer::SetPaused(const Partition& partition, bool paused) {
  // librdkafka drops what it prefetched also when nothing changes; each call would cost a fetch.
  if (paused_.contains(partition) == paused) return OkStatus();
  PartitionListPtr list = MakeList(1);
  Add(list.get(), partition.first, partition.second, RD_KAFKA_OFFSET_INVALID);
  rd_kafka_resp_err_t error = paused ? rd_kafka_pause_partitions(handle_->get(), list.get())
                                     : rd_kafka_resume_partitions(handle_->get(), list.get());
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) error = list->elems[0].err;
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return InternalError(fmt::format("{}: {}: {}", Name(partition.first, partition.second),
                                     paused ? "pause" : "resume", rd_kafka_err2str(error)));
  }
  if (paused) {
    paused_.insert(partition);
  } else {
    const Partition copy = partition;  // it may live in the set
    paused_.erase(copy);
  }
  return OkStatus();
}

Status KafkaConsumer::Pause(const std::string& topic, int32_t partition) {
  if (!next_.contains({topic, partition})) {
    return NotFoundError(Name(topic, partition) + " is not assigned");
  }
  return SetPaused({topic, partition}, true);
}

Status KafkaConsumer::Resume(const std::string& topic, int32_t partition) {
  if (!next_.contains({topic, partition})) {
    return NotFoundError(Name(topic, partition) + " is not assigned");
  }
  return SetPaused({topic, partition}, false);
}

Result<Watermarks> KafkaConsumer::GetWatermarks(const std::string& topic, int32_t partition,
                                                Nanos timeout) {
  Watermarks marks;
  const rd_kafka_resp_err_t error =
      rd_kafka_query_watermark_offsets(handle_->get(), topic.c_str(), partition, &marks.low,
                                       &marks.high, std::max(1, TimeoutMs(timeout)));
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return marks;
  if (IsTransient(error)) {
    return handle_->Away(error).WithContext("watermarks of " + Name(topic, partition));
  }
  return ProduceStatus(error, Name(topic, partition));
}

}  // namespace baton::bus::kafka
