// What a broker that is away or failing does to the bus, with faults injected on the embedded one.
#include "src/bus/kafka/embedded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/bus/kafka/kafka_bus.h"

namespace baton::bus {
namespace {

using ::testing::HasSubstr;

constexpr Nanos kPatience = std::chrono::seconds(30);
constexpr Nanos kShort = std::chrono::milliseconds(200);
constexpr int16_t kProduceRequest = 0;  // numbers of the Kafka protocol
constexpr int16_t kInitProducerIdRequest = 22;

class EmbeddedTest : public ::testing::Test {
 protected:
  std::unique_ptr<KafkaBus> MakeBus(KafkaOptions options) {
    return MakeKafkaBus(std::move(options)).value();
  }

  // Produces "0", "1", ... and collects what is reported.
  void ProduceNumbers(Producer& producer, int count) {
    for (int i = 0; i < count; ++i) {
      const Status taken =
          producer.Produce({.topic = "t", .partition = 0, .value = std::to_string(i)},
                           [this](const Delivery& delivery) { deliveries_.push_back(delivery); });
      ASSERT_TRUE(taken.ok()) << taken.ToString();
    }
  }

  void ExpectNumbers(Bus& bus, int count) {
    auto consumer = bus.NewConsumer("reader").value();
    ASSERT_TRUE(consumer->Assign({{"t", 0, kOffsetBeginning}}).ok());
    for (int i = 0; i < count; ++i) {
      const auto record = consumer->Poll(kPatience).value();
      ASSERT_TRUE(record.has_value()) << "record " << i << " is missing";
      EXPECT_EQ(record->value, std::to_string(i));
      EXPECT_EQ(record->offset, i);
    }
    EXPECT_FALSE(consumer->Poll(kShort).value().has_value());
  }

  std::unique_ptr<EmbeddedCluster> cluster_ = EmbeddedCluster::Start({{.name = "t"}}).value();
  std::vector<Delivery> deliveries_;
};

TEST_F(EmbeddedTest, ABrokerThatIsAwayAtStartIsWaitedFor) {
  ASSERT_TRUE(cluster_->SetDown(true).ok());
  auto bus = MakeBus(cluster_->Options());
  auto producer = bus->NewProducer("early").value();
  auto consumer = bus->NewConsumer("early").value();
  ASSERT_TRUE(consumer->Assign({{"t", 0, 0}}).ok());
  ProduceNumbers(*producer, 3);
  EXPECT_FALSE(consumer->Poll(kShort).value().has_value());
  EXPECT_TRUE(deliveries_.empty());
  ASSERT_TRUE(cluster_->SetDown(false).ok());
  EXPECT_TRUE(producer->Flush(kPatience).ok());
  EXPECT_EQ(deliveries_.size(), 3U);
  EXPECT_EQ(consumer->Poll(kPatience).value()->value, "0");
}

TEST_F(EmbeddedTest, APingNamesTheBrokerThatIsAwayAndWhy) {
  ASSERT_TRUE(cluster_->SetDown(true).ok());
  auto bus = MakeBus(cluster_->Options());
  const Status away = bus->Ping(kShort);
  EXPECT_EQ(away.code(), StatusCode::kUnavailable);
  EXPECT_THAT(away.message(), HasSubstr("broker " + cluster_->bootstrap() + " is away: "));
  EXPECT_THAT(away.message(), HasSubstr("refused"));
  ASSERT_TRUE(cluster_->SetDown(false).ok());
  EXPECT_TRUE(bus->Ping(kPatience).ok());
}

TEST_F(EmbeddedTest, AnEndThatCannotBeLearntIsUnavailableAfterTheTimeout) {
  KafkaOptions options = cluster_->Options();
  options.assign_timeout = Millis(300);
  auto bus = MakeBus(options);
  ASSERT_TRUE(cluster_->SetDown(true).ok());
  auto consumer = bus->NewConsumer("end").value();
  const Status away = consumer->Assign({{"t", 0, kOffsetEnd}});
  EXPECT_EQ(away.code(), StatusCode::kUnavailable) << away.ToString();
  EXPECT_THAT(away.message(), HasSubstr("t[0]"));
}

TEST_F(EmbeddedTest, ARecordThatIsNotDeliveredInTimeIsReportedAsLate) {
  KafkaOptions options = cluster_->Options();
  options.delivery_timeout = Millis(300);
  auto bus = MakeBus(options);
  ASSERT_TRUE(cluster_->SetDown(true).ok());
  auto producer = bus->NewProducer("late").value();
  ProduceNumbers(*producer, 1);
  ASSERT_TRUE(producer->Flush(kPatience).ok());
  ASSERT_EQ(deliveries_.size(), 1U);
  EXPECT_EQ(deliveries_[0].status.code(), StatusCode::kDeadlineExceeded)
      << deliveries_[0].status.ToString();
}

TEST_F(EmbeddedTest, ErrorsThatPassAreRetriedInOrderWithOneReportEach) {
  auto bus = MakeBus(cluster_->Options());
  auto producer = bus->NewProducer("retry").value();
  rd_kafka_mock_push_request_errors(
      cluster_->mock(), kProduceRequest, 5, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
      RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
      RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION);
  ProduceNumbers(*producer, 20);
  ASSERT_TRUE(producer->Flush(kPatience).ok());
  ASSERT_EQ(deliveries_.size(), 20U);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(deliveries_[i].status.ok()) << deliveries_[i].status.ToString();
    EXPECT_EQ(deliveries_[i].offset, i);
  }
  ExpectNumbers(*bus, 20);
}

TEST_F(EmbeddedTest, AConnectionThatIsCutIsMadeAgain) {
  auto bus = MakeBus(cluster_->Options());
  auto producer = bus->NewProducer("cut").value();
  rd_kafka_mock_push_request_errors(cluster_->mock(), kProduceRequest, 2,
                                    RD_KAFKA_RESP_ERR__TRANSPORT, RD_KAFKA_RESP_ERR__TRANSPORT);
  ProduceNumbers(*producer, 10);
  ASSERT_TRUE(producer->Flush(kPatience).ok());
  ExpectNumbers(*bus, 10);
}

TEST_F(EmbeddedTest, ARecordThatTheBrokerFindsTooLargeIsTheCallersError) {
  auto bus = MakeBus(cluster_->Options());
  auto producer = bus->NewProducer("large").value();
  rd_kafka_mock_push_request_errors(cluster_->mock(), kProduceRequest, 1,
                                    RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
  ProduceNumbers(*producer, 1);
  ASSERT_TRUE(producer->Flush(kPatience).ok());
  ASSERT_EQ(deliveries_.size(), 1U);
  EXPECT_EQ(deliveries_[0].status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(producer->health().ok());
}

TEST_F(EmbeddedTest, AFatalErrorEndsTheProducerAndHealthSaysSo) {
  rd_kafka_mock_push_request_errors(cluster_->mock(), kInitProducerIdRequest, 1,
                                    RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED);
  auto bus = MakeBus(cluster_->Options());  // its admin handle may take the error
  rd_kafka_mock_push_request_errors(cluster_->mock(), kInitProducerIdRequest, 1,
                                    RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED);
  auto producer = bus->NewProducer("fatal").value();
  ProduceNumbers(*producer, 1);
  IgnoreStatus(producer->Flush(kPatience));
  EXPECT_FALSE(producer->health().ok());
  EXPECT_THAT(producer->health().message(), HasSubstr("fatal"));
  EXPECT_FALSE(producer->Produce({.topic = "t", .partition = 0, .value = "v"}, {}).ok());
}

TEST_F(EmbeddedTest, ADroppedProducerDropsItsCallbacks) {
  auto bus = MakeBus(cluster_->Options());
  auto alive = std::make_shared<int>(0);
  auto producer = bus->NewProducer("dropped").value();
  ASSERT_TRUE(producer
                  ->Produce({.topic = "t", .partition = 0, .value = "v"},
                            [alive](const Delivery&) { ++*alive; })
                  .ok());
  EXPECT_EQ(alive.use_count(), 2);
  producer.reset();
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_EQ(*alive, 0);
}

TEST_F(EmbeddedTest, AProcessThatIsNotTheHostWaitsForItsTopicsAndComparesCounts) {
  KafkaOptions options;
  options.bootstrap = cluster_->bootstrap();
  options.embedded = true;
  auto bus = MakeBus(options);
  EXPECT_TRUE(bus->Provision({{.name = "t", .partitions = 1}}, kPatience).ok());
  EXPECT_EQ(bus->Provision({{.name = "t", .partitions = 2}}, kPatience).code(),
            StatusCode::kFailedPrecondition);
  const Status missing = bus->Provision({{.name = "other", .partitions = 2}}, kShort);
  EXPECT_EQ(missing.code(), StatusCode::kUnavailable);
  EXPECT_THAT(missing.message(), HasSubstr("other"));
  EXPECT_THAT(missing.message(), HasSubstr("host"));
  ASSERT_TRUE(cluster_->CreateTopic({.name = "other", .partitions = 2}).ok());
  EXPECT_TRUE(bus->Provision({{.name = "other", .partitions = 2}}, kPatience).ok());
}

TEST_F(EmbeddedTest, ATopicIsMadeOnce) {
  EXPECT_EQ(cluster_->CreateTopic({.name = "t"}).code(), StatusCode::kAlreadyExists);
}

// The embedded broker keeps 5 MiB of a partition; a reader that is too slow has to learn of it.
TEST_F(EmbeddedTest, RecordsThatTheEmbeddedBrokerDroppedAreDataLoss) {
  auto bus = MakeBus(cluster_->Options());
  auto producer = bus->NewProducer("much").value();
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(
        producer->Produce({.topic = "t", .partition = 0, .value = std::string(1 << 20, 'x')}, {})
            .ok());
    ASSERT_TRUE(producer->Flush(kPatience).ok());
  }
  auto consumer = bus->NewConsumer("slow").value();
  const Watermarks marks = consumer->GetWatermarks("t", 0, kPatience).value();
  EXPECT_GT(marks.low, 0);
  EXPECT_EQ(marks.high, 8);
  ASSERT_TRUE(consumer->Assign({{"t", 0, 0}}).ok());
  EXPECT_EQ(consumer->Poll(kPatience).status().code(), StatusCode::kDataLoss);
  ASSERT_TRUE(consumer->Assign({{"t", 0, kOffsetBeginning}}).ok());
  EXPECT_EQ(consumer->Poll(kPatience).value()->offset, marks.low);
}

// A prefetch queue that is full must not cost a second each time (feared, not measured).
TEST_F(EmbeddedTest, ALongBacklogIsReadWithoutStalls) {
  constexpr int kCount = 15'000;
  auto bus = MakeBus(cluster_->Options());
  auto producer = bus->NewProducer("bulk").value();
  ProduceNumbers(*producer, kCount);
  ASSERT_TRUE(producer->Flush(kPatience).ok());
  auto consumer = bus->NewConsumer("bulk").value();
  ASSERT_TRUE(consumer->Assign({{"t", 0, kOffsetBeginning}}).ok());
  for (int i = 0; i < kCount; ++i) {
    const auto record = consumer->Poll(kPatience).value();
    ASSERT_TRUE(record.has_value());
    ASSERT_EQ(record->offset, i);
  }
}

TEST(KafkaBus, NobodyAtTheAddressIsNoReasonToCrash) {
  KafkaOptions options;
  options.bootstrap = "127.0.0.1:1";
  auto bus = MakeKafkaBus(options).value();
  auto producer = bus->NewProducer("p").value();
  auto consumer = bus->NewConsumer("c").value();
  ASSERT_TRUE(producer->Produce({.topic = "t", .partition = 0, .value = "v"}, {}).ok());
  ASSERT_TRUE(consumer->Assign({{"t", 0, 0}}).ok());
  EXPECT_FALSE(consumer->Poll(kShort).value().has_value());
  EXPECT_EQ(producer->Poll(kShort), 0);
  const Status away = bus->Ping(kShort);
  EXPECT_EQ(away.code(), StatusCode::kUnavailable);
  EXPECT_THAT(away.message(), HasSubstr("broker 127.0.0.1:1 is away"));
}

}  // namespace
}  // namespace baton::bus
