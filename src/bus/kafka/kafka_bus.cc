#include "src/bus/kafka/kafka_bus.h"

#include <utility>

#include "src/bus/kafka/admin.h"
#include "src/bus/kafka/consumer.h"
#include "src/bus/kafka/producer.h"
#include "src/bus/kafka/settings.h"

namespace baton::bus {
namespace {

class KafkaBusImpl : public KafkaBus {
 public:
  KafkaBusImpl(KafkaOptions options, std::unique_ptr<kafka::Admin> admin)
      : options_(std::move(options)), admin_(std::move(admin)) {}

  Result<std::unique_ptr<Producer>> NewProducer(const std::string& name) override {
    return kafka::KafkaProducer::Make(options_, name);
  }
  Result<std::unique_ptr<Consumer>> NewConsumer(const std::string& name) override {
    return kafka::KafkaConsumer::Make(options_, name);
  }
  Status Provision(const std::vector<TopicSettings>& topics, Nanos timeout) override {
    return admin_->Provision(topics, timeout);
  }
  Result<int32_t> PartitionCount(const std::string& topic, Nanos timeout) override {
    return admin_->PartitionCount(topic, timeout);
  }
  Status Ping(Nanos timeout) override { return admin_->Ping(timeout); }

 private:
  const KafkaOptions options_;
  const std::unique_ptr<kafka::Admin> admin_;
};

}  // namespace

Result<std::unique_ptr<KafkaBus>> MakeKafkaBus(KafkaOptions options) {
  if (options.bootstrap.empty()) {
    return InvalidArgumentError("the address of the Kafka broker is empty");
  }
  // The admin handle tries the producer's settings; the consumer's are tried without a handle.
  ASSIGN_OR_RETURN(const kafka::ConfPtr consumer_conf,
                   kafka::MakeConf(options, RD_KAFKA_CONSUMER, "check"));
  ASSIGN_OR_RETURN(std::unique_ptr<kafka::Admin> admin, kafka::Admin::Make(options));
  return std::unique_ptr<KafkaBus>(
      std::make_unique<KafkaBusImpl>(std::move(options), std::move(admin)));
}

}  // namespace baton::bus
