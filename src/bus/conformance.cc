#include "src/bus/conformance.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <thread>
#include <utility>

namespace baton::bus {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void Conformance::SetUp() {
  harness_ = GetParam().make();
  ASSERT_NE(harness_, nullptr);
  bus_ = harness_->MakeBus({});
}

void Conformance::TearDown() {
  bus_.reset();
  harness_.reset();
}

std::string Conformance::MakeTopic(int32_t partitions) {
  static int made = 0;
  std::string name = fmt::format("conformance.{}", made++);
  const Status status = bus_->Provision({{.name = name, .partitions = partitions}}, kPatience);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return name;
}

std::unique_ptr<Producer> Conformance::MakeProducer() {
  return bus_->NewProducer("test-producer").value();
}

std::unique_ptr<Consumer> Conformance::MakeConsumer() {
  return bus_->NewConsumer("test-consumer").value();
}

void Conformance::FlushAll(Producer& producer) {
  const MonoTime until = RealClock().Now() + kPatience;
  Status status;
  do {
    harness_->LetTimePass();
    status = producer.Flush(until - RealClock().Now());
  } while (!status.ok() && RealClock().Now() < until);
  EXPECT_TRUE(status.ok()) << status.ToString();
}

Delivery Conformance::Put(Producer& producer, OutRecord record) {
  Delivery result{.status = InternalError("the callback never ran")};
  const Status taken =
      producer.Produce(std::move(record), [&](const Delivery& delivery) { result = delivery; });
  EXPECT_TRUE(taken.ok()) << taken.ToString();
  FlushAll(producer);
  return result;
}

void Conformance::PutMany(Producer& producer, const std::string& topic, int32_t partition,
                          int count, const std::string& prefix) {
  int delivered = 0;
  for (int i = 0; i < count; ++i) {
    const Status taken = producer.Produce(
        {.topic = topic, .partition = partition, .value = prefix + std::to_string(i)},
        [&](const Delivery& delivery) { delivered += delivery.status.ok() ? 1 : 0; });
    ASSERT_TRUE(taken.ok()) << taken.ToString();
  }
  FlushAll(producer);
  EXPECT_EQ(delivered, count);
}

std::vector<Record> Conformance::Take(Consumer& consumer, int count) {
  std::vector<Record> records;
  const MonoTime until = RealClock().Now() + kPatience;
  while (static_cast<int>(records.size()) < count && RealClock().Now() < until) {
    auto polled = consumer.Poll(std::chrono::milliseconds(100));
    if (!polled.ok()) {
      ADD_FAILURE() << polled.status().ToString();
      return records;
    }
    if (*polled) {
      records.push_back(std::move(**polled));
    } else {
      harness_->LetTimePass();
    }
  }
  EXPECT_EQ(static_cast<int>(records.size()), count);
  // Callers index up to `count`.
  records.resize(static_cast<size_t>(count));
  return records;
}

Status Conformance::TakeError(Consumer& consumer) {
  const MonoTime until = RealClock().Now() + kPatience;
  while (RealClock().Now() < until) {
    const auto polled = consumer.Poll(std::chrono::milliseconds(100));
    if (!polled.ok()) return polled.status();
    EXPECT_FALSE(polled->has_value()) << "offset " << (*polled)->offset;
    harness_->LetTimePass();
  }
  return OkStatus();
}

void Conformance::ExpectNothing(Consumer& consumer) {
  harness_->LetTimePass();
  const auto polled = consumer.Poll(kNothing);
  ASSERT_TRUE(polled.ok()) << polled.status().ToString();
  EXPECT_FALSE(polled->has_value()) << "got offset " << (*polled)->offset;
}

namespace {

std::vector<std::string> Values(const std::vector<Record>& records) {
  std::vector<std::string> values;
  for (const Record& record : records) values.push_back(record.value.value_or("<tombstone>"));
  return values;
}

// -------------------------------------------------------------------------- records

TEST_P(Conformance, RecordsOfAPartitionArriveOnceAndInTheOrderProduced) {
  const std::string topic = MakeTopic(1);
  auto producer = MakeProducer();
  auto consumer = MakeConsumer();
  ASSERT_TRUE(consumer->Assign({{topic, 0, kOffsetBeginning}}).ok());
  PutMany(*producer, topic, 0, 1000, "v");
  const std::vector<Record> records = Take(*consumer, 1000);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(records[i].offset, i);
    ASSERT_EQ(records[i].value, "v" + std::to_string(i));
  }
  ExpectNothing(*consumer);
}

TEST_P(Conformance, ADeliveredRecordArrivesWithAllItsParts) {
  const std::string topic = MakeTopic(3);
  auto producer = MakeProducer();
  const std::string binary("\0\xff\x80z\0", 5);
  const Delivery delivery = Put(*producer, {.topic = topic,
                                            .partition = 2,
                                            .key = binary,
                                            .value = binary + "value",
                                            .headers = {{"h", binary}, {"empty", ""}, {"h", "2"}}});
  ASSERT_TRUE(delivery.status.ok()) << delivery.status.ToString();
  EXPECT_EQ(delivery.partition, 2);
  EXPECT_EQ(delivery.offset, 0);
  auto consumer = MakeConsumer();
  ASSERT_TRUE(consumer->Assign({{topic, 2, kOffsetBeginning}}).ok());
  const Record record = Take(*consumer, 1)[0];
  EXPECT_EQ(record.topic, topic);
  EXPECT_EQ(record.partition, 2);
  EXPECT_EQ(record.offset, 0);
  EXPECT_GT(record.timestamp_ms, 1'600'000'000'000);
  EXPECT_EQ(record.key, binary);
  EXPECT_EQ(record.value, binary + "value");
  EXPECT_THAT(record.headers, ElementsAre(std::pair<std::string, std::string>("h", binary),
                                          std::pair<std::string, std::string>("empty", ""),
                                          std::pair<std::string, std::string>("h", "2")));
}

TEST_P(Conformance, ATombstoneIsNotAnEmptyValue) {
  const std::string topic = MakeTopic(1);
  auto producer = MakeProducer();
  ASSERT_TRUE(Put(*producer, {.topic = topic, .partition = 0, .key = "k"}).status.ok());
  ASSERT_TRUE(
      Put(*producer, {.topic = topic, .partition = 0, .key = "k", .value = ""}).status.ok());
  auto consumer = MakeConsumer();
  ASSERT_TRUE(consumer->Assign({{topic, 0, kOffsetBeginning}}).ok());
  const std::vector<Record> records = Take(*consumer, 2);
  EXPECT_FALSE(records[0].value.has_value());
  ASSERT_TRUE(records[1].value.has_value());
  EXPECT_EQ(*records[1].value, "");
}

TEST_P(Conformance, AKeyGoesToThePartitionThatKafkaClientsChoose) {
  constexpr int32_t kPartitions = 7;
  const std::string topic = MakeTopic(kPartitions);
  auto producer = MakeProducer();
  std::set<int32_t> used;
  for (int i = 0; i < 40; ++i) {
    const std::string key = "tenant/request-" + std::to_string(i);
    const Delivery delivery = Put(*producer, {.topic = topic, .key = key, .value = "v"});
    ASSERT_TRUE(delivery.status.ok()) << delivery.status.ToString();
    EXPECT_EQ(delivery.partition, PartitionOfKey(key, kPartitions)) << key;
    used.insert(delivery.partition);
  }
  EXPECT_EQ(used.size(), static_cast<size_t>(kPartitions));
}

TEST_P(Conformance, ARecordWithoutKeyAndPartitionIsDelivered) {
  const std::string topic = MakeTopic(4);
  auto producer = MakeProducer();
  const Delivery delivery = Put(*producer, {.topic = topic, .value = "v"});
  EXPECT_TRUE(delivery.status.ok()) << delivery.status.ToString();
  EXPECT_GE(delivery.partition, 0);
  EXPECT_LT(delivery.partition, 4);
}

TEST_P(Conformance, ARecordAtTheSizeLimitPassesAndOneByteMoreIsRefused) {
  const int64_t limit = BusLimits().max_record_bytes;
  const std::string topic = MakeTopic(1);
  auto producer = MakeProducer();
  const Status refused = producer->Produce(
      {.topic = topic, .partition = 0, .key = "k", .value = std::string(limit, 'x')}, {});
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused.ToString();
  EXPECT_THAT(refused.message(), HasSubstr(std::to_string(limit)));
  const Delivery delivery = Put(*producer, {.topic = topic,
                                            .partition = 0,
                                            .key = "k",
                                            .value = std::string(limit - 3, 'x'),
                                            .headers = {{"h", "v"}}});
  ASSERT_TRUE(delivery.status.ok()) << delivery.status.ToString();
  auto consumer = MakeConsumer();
  ASSERT_TRUE(consumer->Assign({{topic, 0, kOffsetBeginning}}).ok());
  EXPECT_EQ(Take(*consumer, 1)[0].value->size(), static_cast<size_t>(limit - 3));
}

// -------------------------------------------------------------------------- positions

TEST_P(Conformance, WatermarksBoundTheOffsetsHeld) {
  const std::string topic = MakeTopic(2);
  auto producer = MakeProducer();
  auto consumer = MakeConsumer();
  auto marks = consumer->GetWatermarks(topic, 1, kPatience);
  ASSERT_TRUE(marks.ok()) << marks.status().ToString();
  EXPECT_EQ(marks->low, 0);
  EXPECT_EQ(marks->high, 0);
  PutMany(*producer, topic, 1, 5, "v");
  marks = consumer->GetWatermarks(topic, 1, kPatience);
  ASSERT_TRUE(marks.ok()) << marks.status().ToString();
  EXPECT_EQ(marks->low, 0);
  EXPECT_EQ(marks->high, 5);
}

TEST_P(Conformance, ReadingStartsAtTheBeginningTheEndOrAnOffset) {
  const std::string topic = MakeTopic(3);
  auto producer = MakeProducer();
  for (int32_t partition = 0; partition < 3; ++partition) {
    PutMany(*producer, topic, partition, 4, "old");
  }
  auto consumer = MakeConsumer();
  ASSERT_TRUE(
      consumer->Assign({{topic, 0, kOffsetBeginning}, {topic, 1, 3}, {topic, 2, kOffsetEnd}}).ok());
  for (int32_t partition = 0; partition < 3; ++partition) {
    PutMany(*producer, topic, partition, 1, "new");
  }
  std::map<int32_t, std::vector<std::string>> seen;
  for (const Record& record : Take(*consumer, 5 + 2 + 1)) {
    seen[record.partition].push_back(record.value.value_or(""));
  }
  EXPECT_THAT(seen[0], ElementsAre("old0", "old1", "old2", "old3", "new0"));
  EXPECT_THAT(seen[1], ElementsAre("old3", "new0"));
  EXPECT_THAT(seen[2], ElementsAre("new0"));
}

// A client sends its request right after Assign() returns; the answer must not be missed.
TEST_P(Conformance, TheEndIsResolvedBeforeAssignReturns) {
  auto producer = MakeProducer();
  for (int round = 0; round < 5; ++round) {
    const std::string topic = MakeTopic(2);
    PutMany(*producer, topic, 1, round, "before");
    auto consumer = MakeConsumer();
    const Status assigned = consumer->Assign({{topic, 0, kOffsetEnd}, {topic, 1, kOffsetEnd}});
    ASSERT_TRUE(assigned.ok()) << assigned.ToString();
    // Nothing polls until the record is there.
    PutMany(*producer, topic, 1, 1, "after");
    const Record record = Take(*consumer, 1)[0];
    EXPECT_EQ(record.value, "after0");
    EXPECT_EQ(record.offset, round);
  }
}

TEST_P(Conformance, AnOffsetThatIsNotThereIsDataLoss) {
  const std::string topic = MakeTopic(2);
  auto producer = MakeProducer();
  PutMany(*producer, topic, 0, 2, "v");
  auto consumer = MakeConsumer();
  ASSERT_TRUE(consumer->Assign({{topic, 0, 1000}}).ok());
  const Status lost = TakeError(*consumer);
  EXPECT_EQ(lost.code(), StatusCode::kDataLoss) << lost.ToString();
  EXPECT_THAT(lost.message(), HasSubstr(topic));
  // The caller decides where to go on.
  ASSERT_TRUE(consumer->Assign({{topic, 0, 1}}).ok());
  EXPECT_EQ(Take(*consumer, 1)[0].value, "v1");
}

TEST_P(Conformance, AssignReplacesTheAssignment) {
  const std::string topic = MakeTopic(2);
  auto producer = MakeProducer();
  PutMany(*producer, topic, 0, 3, "a");
  PutMany(*producer, topic, 1, 3, "b");
  auto consumer = MakeConsumer();
  ASSERT_TRUE(consumer->Assign({{topic, 0, kOffsetBeginning}}).ok());
  EXPECT_EQ(Take(*consumer, 1)[0].value, "a0");
  ASSERT_TRUE(consumer->Assign({{topic, 1, kOffsetBeginning}}).ok());
  EXPECT_THAT(Values(Take(*consumer, 3)), ElementsAre("b0", "b1", "b2"));
  ExpectNothing(*consumer);
  ASSERT_TRUE(consumer->Assign({{topic, 0, kOffsetBeginning}}).ok());
  EXPECT_THAT(Values(Take(*consumer, 3)), ElementsAre("a0", "a1", "a2"));
  ASSERT_TRUE(consumer->Assign({}).ok());
  PutMany(*producer, topic, 0, 1, "late");
  ExpectNothing(*consumer);
}

TEST_P(Conformance, AnAssignmentThatNamesAPartitionTwiceIsRefused) {
  const std::string topic = MakeTopic(1);
  auto consumer = MakeConsumer();
  EXPECT_EQ(consumer->Assign({{topic, 0, 0}, {topic, 0, 1}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(consumer->Assign({{topic, 0, -7}}).code(), StatusCode::kInvalidArgument);
}

TEST_P(Conformance, TwoConsumersEachSeeEveryRecord) {
  const std::string topic = MakeTopic(1);
  auto producer = MakeProducer();
  auto first = MakeConsumer();
  auto second = MakeConsumer();
  ASSERT_TRUE(first->Assign({{topic, 0, kOffsetBeginning}}).ok());
  ASSERT_TRUE(second->Assign({{topic, 0, kOffsetBeginning}}).ok());
  PutMany(*producer, topic, 0, 50, "v");
  EXPECT_EQ(Values(Take(*first, 50)), Values(Take(*second, 50)));
}

// -------------------------------------------------------------------------- pausing

TEST_P(Conformance, APausedPartitionDeliversNothingWhileOthersGoOn) {
  const std::string topic = MakeTopic(2);
  auto producer = MakeProducer();
  auto consumer = MakeConsumer();
  ASSERT_TRUE(consumer->Assign({{topic, 0, kOffsetBeginning}, {topic, 1, kOffsetBeginning}}).ok());
  ASSERT_TRUE(consumer->Pause(topic, 0).ok());
  PutMany(*producer, topic, 0, 10, "held");
  PutMany(*producer, topic, 1, 10, "free");
  for (const Record& record : Take(*consumer, 10)) EXPECT_EQ(record.partition, 1);
  ExpectNothing(*consumer);
  ASSERT_TRUE(consumer->Resume(topic, 0).ok());
  for (const Record& record : Take(*consumer, 10)) EXPECT_EQ(record.partition, 0);
}

TEST_P(Conformance, PauseAndResumeLoseAndRepeatNothing) {
  constexpr int kCount = 600;
  const std::string topic = MakeTopic(2);
  auto producer = MakeProducer();
  PutMany(*producer, topic, 0, kCount, "v");
  PutMany(*producer, topic, 1, kCount, "v");
  auto consumer = MakeConsumer();
  ASSERT_TRUE(consumer->Assign({{topic, 0, kOffsetBeginning}, {topic, 1, kOffsetBeginning}}).ok());
  const auto set_paused = [&](int32_t partition, bool paused) {
    const Status status =
        paused ? consumer->Pause(topic, partition) : consumer->Resume(topic, partition);
    EXPECT_TRUE(status.ok()) << status.ToString();
  };
  std::map<int32_t, int64_t> next;
  for (int taken = 0; taken < 2 * kCount; ++taken) {
    // Records are prefetched by now: pausing has to put them back in place. A partition that is
    // finished must not leave the other one paused for ever.
    const int step = taken % 50;
    if (step == 10 && next[1] < kCount) set_paused(0, true);
    if (step == 20 || next[1] == kCount) set_paused(0, false);
    if (step == 25 && next[0] < kCount) set_paused(1, true);
    if (step == 35 || next[0] == kCount) set_paused(1, false);
    const Record record = Take(*consumer, 1)[0];
    ASSERT_EQ(record.offset, next[record.partition]++) << "partition " << record.partition;
    ASSERT_EQ(record.value, "v" + std::to_string(record.offset));
  }
  ASSERT_TRUE(consumer->Resume(topic, 0).ok());
  ASSERT_TRUE(consumer->Resume(topic, 1).ok());
  ExpectNothing(*consumer);
}

TEST_P(Conformance, ANewAssignmentIsNotPaused) {
  const std::string topic = MakeTopic(1);
  auto producer = MakeProducer();
  PutMany(*producer, topic, 0, 1, "v");
  auto consumer = MakeConsumer();
  ASSERT_TRUE(consumer->Assign({{topic, 0, kOffsetBeginning}}).ok());
  ASSERT_TRUE(consumer->Pause(topic, 0).ok());
  ASSERT_TRUE(consumer->Assign({{topic, 0, kOffsetBeginning}}).ok());
  EXPECT_EQ(Take(*consumer, 1)[0].value, "v0");
}

TEST_P(Conformance, PausingWhatIsNotAssignedIsRefused) {
  const std::string topic = MakeTopic(2);
  auto consumer = MakeConsumer();
  ASSERT_TRUE(consumer->Assign({{topic, 0, kOffsetBeginning}}).ok());
  EXPECT_EQ(consumer->Pause(topic, 1).code(), StatusCode::kNotFound);
  EXPECT_EQ(consumer->Resume(topic, 1).code(), StatusCode::kNotFound);
}

// -------------------------------------------------------------------------- producing

TEST_P(Conformance, CallbacksRunInsidePollOnItsThread) {
  const std::string topic = MakeTopic(1);
  auto producer = MakeProducer();
  bool ran = false;
  std::thread::id where;
  ASSERT_TRUE(producer
                  ->Produce({.topic = topic, .partition = 0, .value = "v"},
                            [&](const Delivery&) {
                              ran = true;
                              where = std::this_thread::get_id();
                            })
                  .ok());
  // The record is written before anybody polls the producer...
  auto consumer = MakeConsumer();
  ASSERT_TRUE(consumer->Assign({{topic, 0, kOffsetBeginning}}).ok());
  Take(*consumer, 1);
  EXPECT_FALSE(ran);
  // ...and its callback waits for Poll().
  int polled = 0;
  const MonoTime until = RealClock().Now() + kPatience;
  while (polled == 0 && RealClock().Now() < until) {
    harness_->LetTimePass();
    polled = producer->Poll(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(polled, 1);
  EXPECT_TRUE(ran);
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_EQ(producer->Poll(Nanos(0)), 0);
}

TEST_P(Conformance, ACallbackMayProduce) {
  const std::string topic = MakeTopic(1);
  auto producer = MakeProducer();
  int delivered = 0;
  DeliveryCallback again = [&](const Delivery& delivery) {
    EXPECT_TRUE(delivery.status.ok()) << delivery.status.ToString();
    if (++delivered == 5) return;
    EXPECT_TRUE(producer->Produce({.topic = topic, .partition = 0, .value = "v"}, again).ok());
  };
  ASSERT_TRUE(producer->Produce({.topic = topic, .partition = 0, .value = "v"}, again).ok());
  FlushAll(*producer);
  EXPECT_EQ(delivered, 5);
}

TEST_P(Conformance, AFullQueueRefusesUntilPollMakesRoom) {
  constexpr int kQueue = 20;
  bus_ = harness_->MakeBus({.queue_records = kQueue});
  const std::string topic = MakeTopic(1);
  auto producer = MakeProducer();
  int delivered = 0;
  const auto count = [&](const Delivery& delivery) { delivered += delivery.status.ok() ? 1 : 0; };
  for (int i = 0; i < kQueue; ++i) {
    ASSERT_TRUE(producer->Produce({.topic = topic, .partition = 0, .value = "v"}, count).ok());
  }
  const Status full = producer->Produce({.topic = topic, .partition = 0, .value = "v"}, count);
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted) << full.ToString();
  const MonoTime until = RealClock().Now() + kPatience;
  Status taken = full;
  while (!taken.ok() && RealClock().Now() < until) {
    harness_->LetTimePass();
    producer->Poll(std::chrono::milliseconds(100));
    taken = producer->Produce({.topic = topic, .partition = 0, .value = "v"}, count);
  }
  EXPECT_TRUE(taken.ok()) << taken.ToString();
  FlushAll(*producer);
  EXPECT_EQ(delivered, kQueue + 1);
}

TEST_P(Conformance, FlushStopsAtItsDeadlineAndSaysHowManyAreLeft) {
  const std::string topic = MakeTopic(1);
  auto producer = MakeProducer();
  ASSERT_TRUE(Put(*producer, {.topic = topic, .partition = 0, .value = "warm"}).status.ok());
  harness_->SetBrokerAway(true);
  std::vector<Delivery> deliveries;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(producer
                    ->Produce({.topic = topic, .partition = 0, .value = "v"},
                              [&](const Delivery& d) { deliveries.push_back(d); })
                    .ok());
  }
  const Status late = producer->Flush(std::chrono::milliseconds(200));
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late.ToString();
  EXPECT_THAT(late.message(), HasSubstr("3 records"));
  EXPECT_TRUE(deliveries.empty());
  harness_->SetBrokerAway(false);
  FlushAll(*producer);
  ASSERT_EQ(deliveries.size(), 3U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(deliveries[i].status.ok()) << deliveries[i].status.ToString();
    EXPECT_EQ(deliveries[i].offset, i + 1);
  }
  EXPECT_TRUE(producer->health().ok());
}

TEST_P(Conformance, AConsumerWaitsOutABrokerThatIsAway) {
  const std::string topic = MakeTopic(1);
  auto producer = MakeProducer();
  auto consumer = MakeConsumer();
  PutMany(*producer, topic, 0, 1, "before");
  ASSERT_TRUE(consumer->Assign({{topic, 0, kOffsetBeginning}}).ok());
  EXPECT_EQ(Take(*consumer, 1)[0].value, "before0");
  harness_->SetBrokerAway(true);
  ExpectNothing(*consumer);
  harness_->SetBrokerAway(false);
  PutMany(*producer, topic, 0, 2, "after");
  EXPECT_THAT(Values(Take(*consumer, 2)), ElementsAre("after0", "after1"));
}

// -------------------------------------------------------------------------- topics

TEST_P(Conformance, ProvisionMakesTopicsAndAgreesWithThoseThatAreThere) {
  const std::string first = MakeTopic(5);
  EXPECT_EQ(bus_->PartitionCount(first, kPatience).value(), 5);
  const std::string second = first + ".second";
  const Status both = bus_->Provision(
      {{.name = first, .partitions = 5}, {.name = second, .partitions = 2}}, kPatience);
  EXPECT_TRUE(both.ok()) << both.ToString();
  EXPECT_EQ(bus_->PartitionCount(second, kPatience).value(), 2);
}

TEST_P(Conformance, AnotherPartitionCountIsRefusedNamingBoth) {
  const std::string topic = MakeTopic(5);
  const Status refused = bus_->Provision({{.name = topic, .partitions = 3}}, kPatience);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused.ToString();
  EXPECT_THAT(refused.message(), HasSubstr(topic));
  EXPECT_THAT(refused.message(), HasSubstr("5"));
  EXPECT_THAT(refused.message(), HasSubstr("3"));
}

TEST_P(Conformance, ATopicThatIsNotThereHasNoPartitionCount) {
  EXPECT_EQ(bus_->PartitionCount("conformance.missing", kPatience).status().code(),
            StatusCode::kNotFound);
  // Asking did not make it.
  EXPECT_EQ(bus_->PartitionCount("conformance.missing", kPatience).status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace baton::bus
