// An instance that is killed costs no request its answer and gives none two.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/cluster/cluster.h"

namespace baton::cluster {
namespace {

constexpr Nanos kTimeout = std::chrono::minutes(4);

void ExpectEachAnsweredOnce(const Result<Answers>& answers, size_t requests) {
  ASSERT_TRUE(answers.ok()) << answers.status().ToString();
  ASSERT_EQ(answers->size(), requests);
  for (const auto& [id, answer] : *answers) {
    EXPECT_EQ(answer.terminals, 1) << id;
    EXPECT_EQ(answer.record.outcome, wire::Outcome::kOk)
        << id << ": " << (answer.record.error ? answer.record.error->message : "");
  }
}

TEST(Kill, AGenerationInstanceKilledInDecodeCostsNoAnswer) {
  Options options;
  options.instances = {{"context", "context"}, {"generation", "generation"}};
  options.config.instance.heartbeat_ms = 100;
  Result<std::unique_ptr<TestCluster>> cluster = TestCluster::Start(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status().ToString();

  std::vector<wire::Request> requests = Prompts(16, 96);
  for (wire::Request& request : requests) request.ignore_end = true;
  ASSERT_TRUE((*cluster)->Submit(requests).ok());
  Result<wire::Heartbeat> busy = (*cluster)->AwaitHeartbeat(
      "generation", [](const wire::Heartbeat& beat) { return beat.in_step.size() >= 3; }, kTimeout);
  ASSERT_TRUE(busy.ok()) << busy.status().ToString();
  Result<std::vector<pid_t>> ranks = (*cluster)->RankPids("generation");
  ASSERT_TRUE(ranks.ok()) << ranks.status().ToString();
  std::printf("killing rank pid %d with %zu requests in decode on it\n", ranks->front(),
              busy->in_step.size());
  ASSERT_EQ(kill(ranks->front(), SIGKILL), 0);

  ExpectEachAnsweredOnce((*cluster)->Await(requests, kTimeout), requests.size());
}

TEST(Kill, AContextInstanceKilledInPrefillCostsNoAnswer) {
  Options options;
  options.instances = {{"context", "context"}, {"generation", "generation"}};
  options.config.instance.heartbeat_ms = 100;
  Result<std::unique_ptr<TestCluster>> cluster = TestCluster::Start(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status().ToString();

  const std::vector<wire::Request> requests = Prompts(16, 16);
  Result<std::vector<pid_t>> ranks = (*cluster)->RankPids("context");
  ASSERT_TRUE(ranks.ok()) << ranks.status().ToString();
  ASSERT_TRUE((*cluster)->Submit(requests).ok());
  ASSERT_EQ(kill(ranks->front(), SIGKILL), 0);

  ExpectEachAnsweredOnce((*cluster)->Await(requests, kTimeout), requests.size());
}

}  // namespace
}  // namespace baton::cluster
