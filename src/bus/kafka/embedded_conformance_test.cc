#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "src/bus/conformance.h"
#include "src/bus/kafka/embedded.h"
#include "src/bus/kafka/kafka_bus.h"

namespace baton::bus {
namespace {

class EmbeddedHarness : public Harness {
 public:
  EmbeddedHarness() : cluster_(EmbeddedCluster::Start({}).value()) {}

  std::unique_ptr<Bus> MakeBus(const BusLimits& limits) override {
    KafkaOptions options = cluster_->Options();
    options.client_name = "conformance";
    options.queue_records = limits.queue_records;
    options.max_record_bytes = limits.max_record_bytes;
    return MakeKafkaBus(std::move(options)).value();
  }
  void SetBrokerAway(bool away) override { CHECK_OK(cluster_->SetDown(away)); }

 private:
  const std::unique_ptr<EmbeddedCluster> cluster_;
};

INSTANTIATE_TEST_SUITE_P(Kafka, Conformance,
                         testing::Values(HarnessCase{
                             "embedded", [] { return std::make_unique<EmbeddedHarness>(); }}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace baton::bus
