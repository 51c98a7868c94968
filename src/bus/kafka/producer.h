// bus::Producer over one idempotent librdkafka producer. One owner thread, on which all callbacks
// run. Destruction drops what is queued, with its callbacks: Flush() first.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>
#include <string>
#include <vector>

#include "src/bus/bus.h"
#include "src/bus/kafka/handle.h"

namespace baton::bus::kafka {

class KafkaProducer : public Producer {
 public:
  static Result<std::unique_ptr<Producer>> Make(const KafkaOptions& options,
                                                const std::string& name);
  ~KafkaProducer() override;

  Status Produce(OutRecord record, DeliveryCallback callback) override;
  int Poll(Nanos timeout) override;
  Status Flush(Nanos timeout) override;
  Status health() const override;

 private:
  // A callback waits in a slot; the slot's number travels through librdkafka, so that nothing leaks
  // when the handle goes with records still queued.
  struct Slot {
    DeliveryCallback callback;
    size_t next_free = 0;
  };

  explicit KafkaProducer(int64_t max_record_bytes) : max_record_bytes_(max_record_bytes) {}
  static void OnDelivered(rd_kafka_t* rk, const rd_kafka_message_t* message, void* opaque);
  void Delivered(const rd_kafka_message_t& message);
  size_t TakeSlot(DeliveryCallback callback);
  DeliveryCallback FreeSlot(size_t slot);
  Status CheckSize(const OutRecord& record) const;

  const int64_t max_record_bytes_;
  std::vector<Slot> slots_{1};  // slot 0 stands for "no free slot"
  size_t first_free_ = 0;
  int64_t outstanding_ = 0;  // taken and not yet reported
  int reported_ = 0;         // by the librdkafka call in progress
  std::unique_ptr<Handle> handle_;
};

}  // namespace baton::bus::kafka
