#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "src/bus/conformance.h"
#include "src/bus/sim/sim_bus.h"

namespace baton::bus {
namespace {

class SimHarness : public Harness {
 public:
  explicit SimHarness(Nanos delay) : delay_(delay) {}

  std::unique_ptr<Bus> MakeBus(const BusLimits& limits) override {
    auto bus =
        std::make_unique<SimBus>(clock_, SimOptions{.seed = 7,
                                                    .visible_delay_max = delay_,
                                                    .delivery_delay_max = delay_,
                                                    .max_record_bytes = limits.max_record_bytes,
                                                    .queue_records = limits.queue_records});
    bus_ = bus.get();
    return bus;
  }
  void SetBrokerAway(bool away) override { bus_->SetDown(away); }
  void LetTimePass() override { clock_.Advance(std::max(delay_ / 4, Nanos(1))); }

 private:
  const Nanos delay_;
  ManualClock clock_;
  SimBus* bus_ = nullptr;
};

std::unique_ptr<Harness> MakePrompt() { return std::make_unique<SimHarness>(Nanos(0)); }
std::unique_ptr<Harness> MakeDelayed() {
  return std::make_unique<SimHarness>(std::chrono::milliseconds(8));
}

INSTANTIATE_TEST_SUITE_P(Sim, Conformance,
                         testing::Values(HarnessCase{"prompt", MakePrompt},
                                         HarnessCase{"delayed", MakeDelayed}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace baton::bus
