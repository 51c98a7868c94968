#include "src/client/client.h"

#include <fmt/format.h>

#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/log.h"
#include "src/wire/codec.h"

namespace baton::client {

namespace {

constexpr Nanos kTopicRetry = std::chrono::milliseconds(100);
// While submissions are under way their reports are looked at this often.
constexpr Nanos kReportSlice = std::chrono::milliseconds(20);

bus::Headers HeadersOf(const wire::Request& request) {
  bus::Headers headers = {{"content-type", "application/x-flatbuffers"},
                          {"tenant", request.id.tenant}};
  if (!request.correlation_id.empty()) {
    headers.emplace_back("correlation-id", request.correlation_id);
  }
  if (request.deadline_ms > 0) {
    headers.emplace_back("deadline-unix-ms", std::to_string(request.deadline_ms));
  }
  if (!request.traceparent.empty()) headers.emplace_back("traceparent", request.traceparent);
  return headers;
}

// Bounded by the producer's own queue: a failed submission is held until Poll hands it out, and
// Submit refuses while too many are held.
class BusClient : public Client {
 public:
  BusClient(const Options& options, std::unique_ptr<bus::Producer> producer,
            std::unique_ptr<bus::Consumer> consumer)
      : options_(options), producer_(std::move(producer)), consumer_(std::move(consumer)) {}

  Status Submit(const wire::Request& request) override {
    constexpr size_t kFailedMax = 4096;
    if (failed_.size() >= kFailedMax) {
      return ResourceExhaustedError(
          fmt::format("{} failed submissions wait to be polled", failed_.size()));
    }
    std::string value = wire::Encode(request);
    if (value.size() > wire::kMessageBytesMax) {
      return InvalidArgumentError(fmt::format("request {} takes {} bytes, at most {}",
                                              request.id.Key(), value.size(),
                                              wire::kMessageBytesMax));
    }
    const Identity id = request.id;
    const std::string correlation_id = request.correlation_id;
    const std::string job = request.job;
    const Status status =
        producer_->Produce({options_.topics.Requests(request.priority), bus::kPartitionByKey,
                            id.Key(), std::move(value), HeadersOf(request)},
                           [this, id, correlation_id, job](const bus::Delivery& delivery) {
                             --undelivered_;
                             if (!delivery.status.ok())
                               Failed(id, correlation_id, job, delivery.status);
                           });
    if (status.ok()) ++undelivered_;
    return status;
  }

  Status Cancel(const Identity& id) override {
    wire::Control control;
    control.scope = wire::ControlScope::kRequest;
    control.id = id;
    return SendControl(control, id.Key());
  }

  Status CancelJob(const std::string& tenant, const std::string& job) override {
    wire::Control control;
    control.scope = wire::ControlScope::kJob;
    control.id.tenant = tenant;
    control.job = job;
    return SendControl(control, Identity{tenant, job}.Key());
  }

  Result<std::optional<Received>> Poll(Nanos timeout) override {
    const MonoTime until = RealClock().Now() + timeout;
    while (true) {
      producer_->Poll(Nanos::zero());
      BATON_RETURN_IF_ERROR(producer_->health());
      if (!failed_.empty()) {
        wire::ResultRecord record = std::move(failed_.front());
        failed_.pop_front();
        return std::optional<Received>(std::move(record));
      }
      Nanos left = std::max(Nanos::zero(), until - RealClock().Now());
      const bool last = left == Nanos::zero();
      if (undelivered_ > 0) left = std::min(left, kReportSlice);
      ASSIGN_OR_RETURN(const std::optional<bus::Record> record, consumer_->Poll(left));
      if (record) {
        if (std::optional<Received> received = Decode(*record)) return received;
        continue;  // the next record, if it is there
      }
      if (last) return std::optional<Received>();
    }
  }

  Status Flush(Nanos timeout) override { return producer_->Flush(timeout); }

 private:
  Status SendControl(const wire::Control& control, const std::string& key) {
    return producer_->Produce(
        {options_.topics.Control(), bus::kPartitionByKey, key, wire::Encode(control), {}},
        [key](const bus::Delivery& delivery) {
          if (delivery.status.ok()) return;
          LOG(kWarning, "cancel of {} was not delivered: {}", key, delivery.status.ToString());
        });
  }

  void Failed(const Identity& id, const std::string& correlation_id, const std::string& job,
              const Status& why) {
    wire::ResultRecord record;
    record.id = id;
    record.outcome = wire::Outcome::kError;
    record.output.finish = wire::FinishReason::kError;
    record.error = wire::ErrorInfo{why.code(), "not submitted: " + why.message(), false};
    record.job = job;
    record.correlation_id = correlation_id;
    failed_.push_back(std::move(record));
  }

  std::optional<Received> Decode(const bus::Record& record) {
    if (!record.value) return std::nullopt;
    Status why;
    if (record.topic == options_.topics.Tokens()) {
      Result<wire::TokenRecord> token = wire::DecodeToken(*record.value);
      if (token.ok()) return Received(std::move(*token));
      why = token.status();
    } else {
      Result<wire::ResultRecord> result = wire::DecodeResult(*record.value);
      if (result.ok()) return Received(std::move(*result));
      why = result.status();
    }
    LOG(kWarning, "{}[{}] offset {} is skipped: {}", record.topic, record.partition, record.offset,
        why.ToString());
    return std::nullopt;
  }

  const Options options_;
  std::unique_ptr<bus::Producer> producer_;
  std::unique_ptr<bus::Consumer> consumer_;
  std::deque<wire::ResultRecord> failed_;
  size_t undelivered_ = 0;
};

// Waits until the topic exists.
Result<int32_t> PartitionsOf(bus::Bus* bus, const std::string& topic, MonoTime until) {
  while (true) {
    const Nanos left = until - RealClock().Now();
    Result<int32_t> count = bus->PartitionCount(topic, std::max(kTopicRetry, left));
    if (count.ok() || left <= Nanos::zero()) return count;
    const StatusCode code = count.status().code();
    const bool waits = code == StatusCode::kNotFound || code == StatusCode::kUnavailable ||
                       code == StatusCode::kDeadlineExceeded;
    if (!waits) return count;
    std::this_thread::sleep_for(std::min(left, kTopicRetry));
  }
}

}  // namespace

Result<std::unique_ptr<Client>> Client::Create(bus::Bus* bus, const Options& options) {
  const MonoTime until = RealClock().Now() + options.startup_timeout;
  std::vector<bus::StartPoint> starts;
  std::vector<std::string> topics = {options.topics.Results()};
  if (options.read_tokens) topics.push_back(options.topics.Tokens());
  for (const std::string& topic : topics) {
    const Result<int32_t> partitions = PartitionsOf(bus, topic, until);
    if (!partitions.ok()) return partitions.status().WithContext("waiting for topic " + topic);
    for (int32_t p = 0; p < *partitions; ++p) {
      starts.push_back(
          {topic, p, options.from_beginning ? bus::kOffsetBeginning : bus::kOffsetEnd});
    }
  }
  ASSIGN_OR_RETURN(auto producer, bus->NewProducer("client"));
  ASSIGN_OR_RETURN(auto consumer, bus->NewConsumer("client"));
  // Ends are resolved before this returns: an answer to what is submitted next is not missed.
  BATON_RETURN_IF_ERROR(consumer->Assign(starts).WithContext("results"));
  return std::unique_ptr<Client>(
      std::make_unique<BusClient>(options, std::move(producer), std::move(consumer)));
}

}  // namespace baton::client
