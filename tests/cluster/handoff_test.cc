// One request through both phases, with KV passed between two processes; small enough for a
// sanitizer build.
#include <gtest/gtest.h>

#include "tests/cluster/cluster.h"

namespace baton::cluster {
namespace {

TEST(Handoff, BothPhasesOfARequestRunAndTheirBlocksComeBack) {
  Options options;
  options.instances = {{"context", "context"}, {"generation", "generation"}};
  options.config.instance.heartbeat_ms = 200;
  options.config.model.kv_blocks = 64;
  Result<std::unique_ptr<TestCluster>> cluster = TestCluster::Start(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status().ToString();

  const std::vector<wire::Request> requests = Prompts(2, 4);
  Result<Answers> answers = (*cluster)->Run(requests, std::chrono::minutes(8));
  ASSERT_TRUE(answers.ok()) << answers.status().ToString();
  for (const auto& [id, answer] : *answers) {
    EXPECT_EQ(answer.terminals, 1) << id;
    EXPECT_EQ(answer.record.outcome, wire::Outcome::kOk) << id;
    EXPECT_FALSE(answer.record.output.tokens.empty()) << id;
  }
  for (const char* instance : {"context", "generation"}) {
    Result<wire::Heartbeat> idle = (*cluster)->AwaitHeartbeat(
        instance,
        [](const wire::Heartbeat& beat) { return beat.progress > 0 && beat.blocks_used == 0; },
        std::chrono::minutes(1));
    ASSERT_TRUE(idle.ok()) << idle.status().ToString();
    EXPECT_EQ(idle->blocks_free + idle->blocks_cached, 64U) << instance;
  }
}

}  // namespace
}  // namespace baton::cluster
