#include "src/wire/topics.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "src/wire/codec.h"

namespace baton::wire {
namespace {

std::map<std::string, std::string> ConfigOf(const std::string& name) {
  for (const TopicSpec& topic : Topics().All()) {
    if (topic.name == name) return {topic.config.begin(), topic.config.end()};
  }
  ADD_FAILURE() << name << " is not provisioned";
  return {};
}

TEST(TopicsTest, EveryNamedTopicIsProvisionedOnceUnderThePrefix) {
  const Topics topics("blue");
  std::set<std::string> names;
  for (const TopicSpec& topic : topics.All()) {
    EXPECT_TRUE(topic.name.starts_with("blue.")) << topic.name;
    EXPECT_TRUE(names.insert(topic.name).second) << topic.name;
  }
  const std::set<std::string> expected = {topics.Requests(Priority::kHigh),
                                          topics.Requests(Priority::kNormal),
                                          topics.Requests(Priority::kBatch),
                                          topics.Assign(),
                                          topics.Events(),
                                          topics.Instances(),
                                          topics.Ledger(),
                                          topics.Results(),
                                          topics.Tokens(),
                                          topics.Control(),
                                          topics.Dead(),
                                          topics.Controllers()};
  EXPECT_EQ(names, expected);
  EXPECT_EQ(topics.Requests(Priority::kBatch), "blue.requests.batch");
}

TEST(TopicsTest, EveryTopicTakesTheLargestMessage) {
  for (const TopicSpec& topic : Topics().All()) {
    const auto config = ConfigOf(topic.name);
    ASSERT_TRUE(config.contains("max.message.bytes")) << topic.name;
    EXPECT_GE(std::stoull(config.at("max.message.bytes")), kMessageBytesMax) << topic.name;
  }
}

TEST(TopicsTest, AnswersOutliveTheDedupeWindow) {
  constexpr int64_t kDedupeWindowMs = 24 * 3600 * 1000;
  EXPECT_GE(std::stoll(ConfigOf("baton.results").at("retention.ms")), kDedupeWindowMs);
}

TEST(TopicsTest, TheLedgerIsCompactedButNotWithinTenMinutes) {
  const auto config = ConfigOf("baton.ledger");
  EXPECT_EQ(config.at("cleanup.policy"), "compact");
  EXPECT_GE(std::stoll(config.at("min.compaction.lag.ms")), 600'000);
  EXPECT_EQ(ConfigOf("baton.instances").at("cleanup.policy"), "compact,delete");
}

TEST(TopicsTest, PartitionsFollowTheDesign) {
  std::map<std::string, int32_t> partitions;
  for (const TopicSpec& topic : Topics().All()) partitions[topic.name] = topic.partitions;
  EXPECT_EQ(partitions["baton.assign"], 256);
  EXPECT_EQ(partitions["baton.results"], 16);
  EXPECT_EQ(partitions["baton.ledger"], 1);
  EXPECT_EQ(partitions["baton.controllers"], 1);
}

}  // namespace
}  // namespace baton::wire
