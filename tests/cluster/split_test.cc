// Context and generation apart give the tokens that one instance gives alone (invariant 10).
#include <gtest/gtest.h>

#include "tests/cluster/cluster.h"

namespace baton::cluster {
namespace {

constexpr Nanos kTimeout = std::chrono::minutes(4);

Answers RunOn(std::vector<launch::InstanceSpec> instances, const std::string& transport,
              const std::vector<wire::Request>& requests) {
  Options options;
  options.instances = std::move(instances);
  options.config.model.dtype = "f32";
  options.config.instance.transport = transport;
  Result<std::unique_ptr<TestCluster>> cluster = TestCluster::Start(options);
  EXPECT_TRUE(cluster.ok()) << cluster.status().ToString();
  if (!cluster.ok()) return {};
  Result<Answers> answers = (*cluster)->Run(requests, kTimeout);
  EXPECT_TRUE(answers.ok()) << answers.status().ToString();
  return answers.ok() ? *answers : Answers();
}

void ExpectSame(const std::vector<wire::Request>& requests, const Answers& whole,
                const Answers& split) {
  ASSERT_EQ(whole.size(), requests.size());
  ASSERT_EQ(split.size(), requests.size());
  for (const wire::Request& request : requests) {
    const std::string& id = request.id.request_id;
    const Answer& a = whole.at(id);
    const Answer& b = split.at(id);
    EXPECT_EQ(a.terminals, 1) << id;
    EXPECT_EQ(b.terminals, 1) << id;
    EXPECT_EQ(a.record.outcome, wire::Outcome::kOk) << id;
    EXPECT_FALSE(a.record.output.tokens.empty()) << id;
    EXPECT_EQ(a.record.output.tokens, b.record.output.tokens) << id;
    EXPECT_EQ(a.record.output.text, b.record.output.text) << id;
    EXPECT_EQ(a.record.output.finish, b.record.output.finish) << id;
  }
}

TEST(Split, MappedHandOffGivesTheTokensOfOneInstance) {
  const std::vector<wire::Request> requests = Prompts(12, 24);
  const Answers whole = RunOn({{"mixed", "mixed"}}, "mapped", requests);
  const Answers split =
      RunOn({{"context", "context"}, {"generation", "generation"}}, "mapped", requests);
  ExpectSame(requests, whole, split);
}

TEST(Split, UcxHandOffGivesTheTokensOfOneInstance) {
  const std::vector<wire::Request> requests = Prompts(6, 16);
  const Answers whole = RunOn({{"mixed", "mixed"}}, "mapped", requests);
  const Answers split =
      RunOn({{"context", "context"}, {"generation", "generation"}}, "ucx", requests);
  ExpectSame(requests, whole, split);
}

}  // namespace
}  // namespace baton::cluster
