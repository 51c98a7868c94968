#include "src/bus/kafka/producer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "src/base/log.h"
#include "src/bus/kafka/errors.h"

namespace baton::bus::kafka {
namespace {

struct HeadersDeleter {
  void operator()(rd_kafka_headers_t* headers) const { rd_kafka_headers_destroy(headers); }
};
using HeadersPtr = std::unique_ptr<rd_kafka_headers_t, HeadersDeleter>;

HeadersPtr MakeHeaders(const Headers& headers) {
  if (headers.empty()) return nullptr;
  HeadersPtr made(rd_kafka_headers_new(headers.size()));
  for (const auto& [name, value] : headers) {
    rd_kafka_header_add(made.get(), name.data(), static_cast<ssize_t>(name.size()), value.data(),
                        static_cast<ssize_t>(value.size()));
  }
  return made;
}

std::string Describe(const OutRecord& record) {
  if (record.partition < 0) return record.topic;
  return fmt::format("{}[{}]", record.topic, record.partition);
}

}  // namespace

Result<std::unique_ptr<Producer>> KafkaProducer::Make(const KafkaOptions& options,
                                                      const std::string& name) {
  std::unique_ptr<KafkaProducer> producer(new KafkaProducer(options.max_record_bytes));
  ASSIGN_OR_RETURN(producer->handle_,
                   Handle::Make(options, RD_KAFKA_PRODUCER, name, &KafkaProducer::OnDelivered));
  producer->handle_->set_owner(producer.get());
  return std::unique_ptr<Producer>(std::move(producer));
}

KafkaProducer::~KafkaProducer() {
  if (handle_ == nullptr) return;
  if (outstanding_ > 0) {
    LOG(kInfo, "kafka {}: closed with {} records undelivered or unreported", handle_->name(),
        outstanding_);
  }
  rd_kafka_purge(handle_->get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                     RD_KAFKA_PURGE_F_NON_BLOCKING);
}

Status KafkaProducer::CheckSize(const OutRecord& record) const {
  size_t bytes = record.key.size() + (record.value ? record.value->size() : 0);
  for (const auto& [name, value] : record.headers) bytes += name.size() + value.size();
  if (bytes <= static_cast<size_t>(max_record_bytes_)) return OkStatus();
  return InvalidArgumentError(fmt::format("{}: a record of {} bytes is over the bus's limit of {}",
                                          Describe(record), bytes, max_record_bytes_));
}

Status KafkaProducer::Produce(OutRecord record, DeliveryCallback callback) {
  BATON_RETURN_IF_ERROR(CheckSize(record));
  rd_kafka_topic_t* topic = handle_->Topic(record.topic);
  if (topic == nullptr) {
    return InvalidArgumentError(fmt::format("\"{}\" cannot be a topic", record.topic));
  }
  HeadersPtr headers = MakeHeaders(record.headers);
  const size_t slot = TakeSlot(std::move(callback));

  rd_kafka_vu_t fields[7];
  size_t count = 0;
  fields[count].vtype = RD_KAFKA_VTYPE_RKT;
  fields[count++].u.rkt = topic;
  fields[count].vtype = RD_KAFKA_VTYPE_PARTITION;
  fields[count++].u.i32 = record.partition < 0 ? RD_KAFKA_PARTITION_UA : record.partition;
  fields[count].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
  fields[count++].u.i = RD_KAFKA_MSG_F_COPY;
  fields[count].vtype = RD_KAFKA_VTYPE_OPAQUE;
  fields[count++].u.ptr = reinterpret_cast<void*>(slot);
  if (record.value) {
    fields[count].vtype = RD_KAFKA_VTYPE_VALUE;
    fields[count].u.mem.ptr = record.value->data();
    fields[count++].u.mem.size = record.value->size();
  }
  if (!record.key.empty()) {
    fields[count].vtype = RD_KAFKA_VTYPE_KEY;
    fields[count].u.mem.ptr = record.key.data();
    fields[count++].u.mem.size = record.key.size();
  }
  if (headers != nullptr) {
    fields[count].vtype = RD_KAFKA_VTYPE_HEADERS;
    fields[count++].u.headers = headers.get();
  }

  rd_kafka_error_t* refused = rd_kafka_produceva(handle_->get(), fields, count);
  if (refused == nullptr) {
    (void)headers.release();  // librdkafka took them
    ++outstanding_;
    return OkStatus();
  }
  const rd_kafka_resp_err_t error = rd_kafka_error_code(refused);
  rd_kafka_error_destroy(refused);
  FreeSlot(slot);
  if (error == RD_KAFKA_RESP_ERR__FATAL) return health();
  return ProduceStatus(error, Describe(record));
}

int KafkaProducer::Poll(Nanos timeout) {
  const MonoTime until = RealClock().Now() + timeout;
  reported_ = 0;
  // A call also returns for events other than reports; those do not end the wait.
  for (Nanos left = timeout;; left = until - RealClock().Now()) {
    rd_kafka_poll(handle_->get(), TimeoutMs(left));
    if (reported_ > 0 || left <= Nanos::zero()) return reported_;
  }
}

Status KafkaProducer::Flush(Nanos timeout) {
  const MonoTime until = RealClock().Now() + timeout;
  reported_ = 0;
  for (Nanos left = timeout; outstanding_ > 0; left = until - RealClock().Now()) {
    rd_kafka_poll(handle_->get(), TimeoutMs(left));
    if (outstanding_ > 0 && left <= Nanos::zero()) {
      return DeadlineExceededError(fmt::format("producer {}: {} records are not delivered yet",
                                               handle_->name(), outstanding_));
    }
  }
  return OkStatus();
}

Status KafkaProducer::health() const {
  char reason[512] = "";
  const rd_kafka_resp_err_t error = rd_kafka_fatal_error(handle_->get(), reason, sizeof reason);
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return OkStatus();
  std::string text = fmt::format("producer {} can no longer be used: {}", handle_->name(), reason);
  const Status kind = ProduceStatus(error, "");
  return kind.code() == StatusCode::kAborted ? AbortedError(std::move(text))
                                             : FailedPreconditionError(std::move(text));
}

void KafkaProducer::OnDelivered(rd_kafka_t*, const rd_kafka_message_t* message, void* opaque) {
  static_cast<KafkaProducer*>(static_cast<Handle*>(opaque)->owner())->Delivered(*message);
}

void KafkaProducer::Delivered(const rd_kafka_message_t& message) {
  ++reported_;
  --outstanding_;
  Delivery delivery{.status = OkStatus(), .partition = message.partition};
  if (message.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    delivery.offset = message.offset;
  } else {
    delivery.status = ProduceStatus(
        message.err, fmt::format("{}[{}]", rd_kafka_topic_name(message.rkt), message.partition));
  }
  const DeliveryCallback callback = FreeSlot(reinterpret_cast<size_t>(message._private));
  if (callback) {
    callback(delivery);
  } else if (!delivery.status.ok()) {
    LOG(kWarning, "kafka {}: record lost: {}", handle_->name(), delivery.status.ToString());
  }
}

size_t KafkaProducer::TakeSlot(DeliveryCallback callback) {
  size_t slot = first_free_;
  if (slot == 0) {
    slot = slots_.size();
    slots_.emplace_back();
  } else {
    first_free_ = slots_[slot].next_free;
  }
  slots_[slot].callback = std::move(callback);
  return slot;
}

DeliveryCallback KafkaProducer::FreeSlot(size_t slot) {
  CHECK(slot > 0 && slot < slots_.size());
  slots_[slot].next_free = std::exchange(first_free_, slot);
  return std::exchange(slots_[slot].callback, nullptr);
}

}  // namespace baton::bus::kafka
