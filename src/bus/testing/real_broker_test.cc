// What only a real broker can show: durability over a restart, deduplication, topic settings.
#include "src/bus/testing/real_broker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/bus/testing/tcp_proxy.h"

namespace baton::bus {
namespace {

using ::testing::HasSubstr;

constexpr Nanos kPatience = std::chrono::seconds(60);

class RealBrokerTest : public ::testing::Test {
 protected:
  void StartBroker(const RealBrokerOptions& options) {
    auto started = RealBroker::Start(options);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    broker_ = std::move(started).value();
  }
  std::unique_ptr<KafkaBus> MakeBus() {
    KafkaOptions options = broker_->Options();
    options.delivery_timeout = Millis(120'000);
    return MakeKafkaBus(options).value();
  }
  void TearDown() override {
    if (HasFailure() && broker_ != nullptr) {
      ADD_FAILURE() << "the broker's log ends with\n" << broker_->LogTail();
    }
  }
  // Produces the numbers from `first` to `last` - 1.
  void ProduceNumbers(Producer& producer, int first, int last) {
    for (int i = first; i < last; ++i) {
      const Status taken = producer.Produce(
          {.topic = "t", .partition = 0, .value = std::to_string(i)},
          [this](const Delivery& delivery) { delivered_ += delivery.status.ok() ? 1 : 0; });
      ASSERT_TRUE(taken.ok()) << taken.ToString();
    }
  }
  void ExpectNumbers(Consumer& consumer, int count) {
    for (int i = 0; i < count; ++i) {
      const auto record = consumer.Poll(kPatience);
      ASSERT_TRUE(record.ok()) << record.status().ToString();
      ASSERT_TRUE(record->has_value()) << "record " << i << " is missing";
      ASSERT_EQ((*record)->value, std::to_string(i));
      ASSERT_EQ((*record)->offset, i);
    }
    const auto more = consumer.Poll(std::chrono::milliseconds(300));
    ASSERT_TRUE(more.ok()) << more.status().ToString();
    EXPECT_FALSE(more->has_value());
  }

  std::unique_ptr<RealBroker> broker_;
  int delivered_ = 0;
};

TEST_F(RealBrokerTest, ARestartWithRecordsInFlightLosesAndRepeatsNothing) {
  StartBroker({});
  auto bus = MakeBus();
  ASSERT_TRUE(bus->Provision({{.name = "t"}}, kPatience).ok());
  auto producer = bus->NewProducer("p").value();
  auto consumer = bus->NewConsumer("c").value();
  ASSERT_TRUE(consumer->Assign({{"t", 0, kOffsetBeginning}}).ok());
  ProduceNumbers(*producer, 0, 500);
  ASSERT_TRUE(producer->Flush(kPatience).ok());
  ProduceNumbers(*producer, 500, 1500);
  const Status restarted = broker_->Restart(/*graceful=*/false);
  ASSERT_TRUE(restarted.ok()) << restarted.ToString();
  ProduceNumbers(*producer, 1500, 2000);
  const Status flushed = producer->Flush(kPatience);
  EXPECT_TRUE(flushed.ok()) << flushed.ToString();
  EXPECT_EQ(delivered_, 2000);
  EXPECT_TRUE(producer->health().ok());
  // The consumer was there all the time.
  ExpectNumbers(*consumer, 2000);
}

TEST_F(RealBrokerTest, ABrokerThatStartsLaterIsFound) {
  StartBroker({});
  {
    auto bus = MakeBus();
    ASSERT_TRUE(bus->Provision({{.name = "t"}}, kPatience).ok());
  }
  broker_->Kill();
  auto bus = MakeBus();
  const Status away = bus->Ping(std::chrono::milliseconds(300));
  EXPECT_EQ(away.code(), StatusCode::kUnavailable);
  EXPECT_THAT(away.message(), HasSubstr("broker " + broker_->bootstrap() + " is away"));
  auto producer = bus->NewProducer("early").value();
  auto consumer = bus->NewConsumer("early").value();
  ASSERT_TRUE(consumer->Assign({{"t", 0, 0}}).ok());
  ProduceNumbers(*producer, 0, 10);
  const Status restarted = broker_->Restart(/*graceful=*/true);
  ASSERT_TRUE(restarted.ok()) << restarted.ToString();
  EXPECT_TRUE(producer->Flush(kPatience).ok());
  EXPECT_EQ(delivered_, 10);
  ExpectNumbers(*consumer, 10);
}

TEST_F(RealBrokerTest, ARecordWhoseAnswerIsLostIsThereOnce) {
  auto proxy = TcpProxy::Start().value();
  StartBroker({.advertised_port = proxy->port()});
  proxy->SetTarget(broker_->port());
  auto bus = MakeBus();
  ASSERT_TRUE(bus->Provision({{.name = "t"}}, kPatience).ok());
  auto producer = bus->NewProducer("p").value();
  ProduceNumbers(*producer, 0, 1);
  ASSERT_TRUE(producer->Flush(kPatience).ok());
  proxy->LoseAnswerTo("123456789");
  int delivered = 0;
  ASSERT_TRUE(producer
                  ->Produce({.topic = "t", .partition = 0, .value = "123456789"},
                            [&](const Delivery& delivery) {
                              EXPECT_TRUE(delivery.status.ok()) << delivery.status.ToString();
                              ++delivered;
                            })
                  .ok());
  const Status flushed = producer->Flush(kPatience);
  EXPECT_TRUE(flushed.ok()) << flushed.ToString();
  EXPECT_EQ(delivered, 1);
  EXPECT_EQ(proxy->lost(), 1);
  auto consumer = bus->NewConsumer("c").value();
  EXPECT_EQ(consumer->GetWatermarks("t", 0, kPatience).value().high, 2);
}

TEST_F(RealBrokerTest, TopicSettingsReachTheBrokerAndBadOnesAreRefused) {
  StartBroker({});
  auto bus = MakeBus();
  const Status made = bus->Provision(
      {{.name = "compacted", .partitions = 2, .config = {{"cleanup.policy", "compact"}}}},
      kPatience);
  EXPECT_TRUE(made.ok()) << made.ToString();
  // A compacted topic takes no record without a key: shows that the setting arrived.
  auto producer = bus->NewProducer("p").value();
  Status refused;
  ASSERT_TRUE(producer
                  ->Produce({.topic = "compacted", .partition = 0, .value = "v"},
                            [&](const Delivery& delivery) { refused = delivery.status; })
                  .ok());
  ASSERT_TRUE(producer->Flush(kPatience).ok());
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused.ToString();
  const Status bad =
      bus->Provision({{.name = "bad", .config = {{"cleanup.policy", "nonsense"}}}}, kPatience);
  EXPECT_EQ(bad.code(), StatusCode::kInvalidArgument) << bad.ToString();
  EXPECT_THAT(bad.message(), HasSubstr("bad"));
}

// In a process of its own, which ends without saying goodbye.
TEST(RealBrokerDeathTest, TheBrokerEndsWithTheProcessThatStartedIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string pid_file = std::string(getenv("TEST_TMPDIR")) + "/broker-pid";
  EXPECT_EXIT(
      {
        auto broker = RealBroker::Start({});
        if (!broker.ok()) _exit(1);
        std::ofstream(pid_file) << (*broker)->pid() << std::flush;
        _exit(0);
      },
      ::testing::ExitedWithCode(0), "");
  pid_t pid = 0;
  std::ifstream(pid_file) >> pid;
  ASSERT_GT(pid, 0);
  // A process that nobody waited for yet still has an entry, in state Z.
  const auto is_gone = [pid] {
    if (kill(pid, 0) != 0) return true;
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name, state;
    stat >> number >> name >> state;
    return state == "Z";
  };
  const MonoTime until = RealClock().Now() + kPatience;
  while (!is_gone() && RealClock().Now() < until) std::this_thread::yield();
  EXPECT_TRUE(is_gone());
}

}  // namespace
}  // namespace baton::bus
