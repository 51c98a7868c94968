#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <utility>

#include "src/bus/conformance.h"
#include "src/bus/kafka/kafka_bus.h"
#include "src/bus/testing/real_broker.h"

namespace baton::bus {
namespace {

// One broker for all tests of this program: starting it costs seconds.
class BrokerEnvironment : public ::testing::Environment {
 public:
  static inline RealBroker* broker = nullptr;

  void SetUp() override {
    auto started = RealBroker::Start({});
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    owned_ = std::move(started).value();
    broker = owned_.get();
  }
  void TearDown() override {
    if (broker != nullptr && ::testing::UnitTest::GetInstance()->Failed()) {
      std::cerr << "---- the broker's log ends with\n" << broker->LogTail() << "\n----\n";
    }
    owned_.reset();
  }

 private:
  std::unique_ptr<RealBroker> owned_;
};

const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new BrokerEnvironment());

class RealHarness : public Harness {
 public:
  ~RealHarness() override { BrokerEnvironment::broker->Continue(); }
  std::unique_ptr<Bus> MakeBus(const BusLimits& limits) override {
    KafkaOptions options = BrokerEnvironment::broker->Options();
    options.client_name = "conformance";
    options.queue_records = limits.queue_records;
    options.max_record_bytes = limits.max_record_bytes;
    return MakeKafkaBus(std::move(options)).value();
  }
  void SetBrokerAway(bool away) override {
    away ? BrokerEnvironment::broker->Stop() : BrokerEnvironment::broker->Continue();
  }
};

std::unique_ptr<Harness> MakeReal() {
  if (BrokerEnvironment::broker == nullptr) return nullptr;
  return std::make_unique<RealHarness>();
}

INSTANTIATE_TEST_SUITE_P(Kafka, Conformance, testing::Values(HarnessCase{"real", MakeReal}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace baton::bus
