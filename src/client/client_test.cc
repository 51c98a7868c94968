#include "src/client/client.h"

#include <gtest/gtest.h>

#include "src/bus/sim/sim_bus.h"
#include "src/wire/codec.h"

namespace baton::client {
namespace {

class ClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<bus::TopicSettings> all;
    for (const wire::TopicSpec& spec : topics_.All()) {
      all.push_back({spec.name, spec.partitions, {}});
    }
    CHECK_OK(bus_.Provision(all, Nanos::zero()));
  }
  std::unique_ptr<Client> Make(bool from_beginning = false, bool read_tokens = false) {
    Options options;
    options.from_beginning = from_beginning;
    options.read_tokens = read_tokens;
    auto client = Client::Create(&bus_, options);
    CHECK(client.ok(), client.status().ToString());
    return std::move(*client);
  }
  void Publish(const std::string& topic, const std::string& key, const std::string& value) {
    auto producer = bus_.NewProducer("test");
    CHECK(producer.ok());
    CHECK_OK((*producer)->Produce({topic, bus::kPartitionByKey, key, value, {}}, nullptr));
  }
  void PublishResult(const std::string& id) {
    wire::ResultRecord record;
    record.id = {"t", id};
    Publish(topics_.Results(), record.id.Key(), wire::Encode(record));
  }
  std::optional<bus::Record> Only(const std::string& topic, int32_t partitions) {
    auto consumer = bus_.NewConsumer("test");
    CHECK(consumer.ok());
    std::vector<bus::StartPoint> starts;
    for (int32_t p = 0; p < partitions; ++p) starts.push_back({topic, p, bus::kOffsetBeginning});
    CHECK_OK((*consumer)->Assign(starts));
    auto record = (*consumer)->Poll(Nanos::zero());
    CHECK(record.ok());
    return *record;
  }

  ManualClock clock_;
  wire::Topics topics_;
  bus::SimBus bus_{clock_, {}};
};

TEST_F(ClientTest, AnswerThatIsPublishedRightAfterCreateIsSeen) {
  PublishResult("before");
  auto client = Make();
  PublishResult("after");
  auto received = client->Poll(Nanos::zero());
  ASSERT_TRUE(received.ok() && *received);
  EXPECT_EQ(std::get<wire::ResultRecord>(**received).id.request_id, "after");
  received = client->Poll(Nanos::zero());
  EXPECT_TRUE(received.ok() && !*received);
}

TEST_F(ClientTest, AnswersOfAnEarlierLifeAreFoundFromTheBeginning) {
  PublishResult("before");
  auto client = Make(/*from_beginning=*/true);
  const auto received = client->Poll(Nanos::zero());
  ASSERT_TRUE(received.ok() && *received);
}

TEST_F(ClientTest, RequestLiesInItsClassUnderItsIdentity) {
  auto client = Make();
  wire::Request request;
  request.id = {"t", "a/b"};
  request.prompt_text = "x";
  request.priority = wire::Priority::kHigh;
  ASSERT_TRUE(client->Submit(request).ok());
  ASSERT_TRUE(client->Flush(Nanos::zero()).ok());
  const auto record = Only(topics_.Requests(wire::Priority::kHigh), 4);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->key, request.id.Key());
  EXPECT_EQ(record->partition, bus::PartitionOfKey(record->key, 4));
  EXPECT_EQ(*wire::DecodeRequest(*record->value), request);
}

TEST_F(ClientTest, CancelsNameTheRequestOrTheJob) {
  auto client = Make();
  ASSERT_TRUE(client->CancelJob("t", "nightly").ok());
  const auto record = Only(topics_.Control(), wire::Topics::kControlPartitions);
  ASSERT_TRUE(record);
  const auto control = wire::DecodeControl(*record->value);
  ASSERT_TRUE(control.ok());
  EXPECT_EQ(control->scope, wire::ControlScope::kJob);
  EXPECT_EQ(control->job, "nightly");
}

TEST_F(ClientTest, GarbageOnTheResultsTopicIsSkipped) {
  auto client = Make();
  Publish(topics_.Results(), "k", "garbage");
  PublishResult("good");
  std::optional<Received> got;
  for (int i = 0; i < 3 && !got; ++i) {
    auto received = client->Poll(Nanos::zero());
    ASSERT_TRUE(received.ok());
    got = std::move(*received);
  }
  ASSERT_TRUE(got);
  EXPECT_EQ(std::get<wire::ResultRecord>(*got).id.request_id, "good");
}

TEST_F(ClientTest, TokensAreReadOnRequestOnly) {
  auto plain = Make();
  auto streaming = Make(false, /*read_tokens=*/true);
  wire::TokenRecord token;
  token.id = {"t", "a"};
  token.attempt = Attempt(1);
  Publish(topics_.Tokens(), token.id.Key(), wire::Encode(token));
  EXPECT_FALSE(*plain->Poll(Nanos::zero()));
  const auto received = streaming->Poll(Nanos::zero());
  ASSERT_TRUE(received.ok() && *received);
  EXPECT_TRUE(std::holds_alternative<wire::TokenRecord>(**received));
}

TEST_F(ClientTest, RequestOverTheLimitIsRefusedHere) {
  auto client = Make();
  wire::Request request;
  request.id = {"t", "a"};
  request.prompt_text = std::string(wire::kMessageBytesMax, 'x');
  EXPECT_EQ(client->Submit(request).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::client
