// What every implementation of the bus has to do, as one suite of tests. An implementation brings
// a Harness and names it:
//
//   INSTANTIATE_TEST_SUITE_P(Sim, Conformance, testing::Values(HarnessCase{"sim",
//   MakeSimHarness}));
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/bus/bus.h"

namespace baton::bus {

struct BusLimits {
  int32_t queue_records = 20'000;
  int64_t max_record_bytes = 4 << 20;
};

// One per test, on the test's thread.
class Harness {
 public:
  virtual ~Harness() = default;
  virtual std::unique_ptr<Bus> MakeBus(const BusLimits& limits) = 0;
  // Takes the broker away without losing anything, and brings it back.
  virtual void SetBrokerAway(bool away) = 0;
  // Called while a test waits: an implementation on a clock of its own moves it here.
  virtual void LetTimePass() {}
};

struct HarnessCase {
  std::string name;
  std::function<std::unique_ptr<Harness>()> make;
  friend void PrintTo(const HarnessCase& value, std::ostream* out) { *out << value.name; }
};

// Fixture with the verbs of a test; each waits for at most kPatience and fails the test then.
class Conformance : public ::testing::TestWithParam<HarnessCase> {
 protected:
  static constexpr Nanos kPatience = std::chrono::seconds(30);
  // Long enough for a record that must not come to show itself.
  static constexpr Nanos kNothing = std::chrono::milliseconds(150);

  void SetUp() override;
  void TearDown() override;

  // A topic that no other test uses.
  std::string MakeTopic(int32_t partitions);
  std::unique_ptr<Producer> MakeProducer();
  std::unique_ptr<Consumer> MakeConsumer();
  // Produces and waits for the report.
  Delivery Put(Producer& producer, OutRecord record);
  // Produces `count` records "<prefix><i>" to one partition and waits for all.
  void PutMany(Producer& producer, const std::string& topic, int32_t partition, int count,
               const std::string& prefix);
  // The next `count` records.
  std::vector<Record> Take(Consumer& consumer, int count);
  // Polls until an error comes.
  Status TakeError(Consumer& consumer);
  void ExpectNothing(Consumer& consumer);
  void FlushAll(Producer& producer);

  std::unique_ptr<Harness> harness_;
  std::unique_ptr<Bus> bus_;
};

}  // namespace baton::bus
