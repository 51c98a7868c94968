#include "src/instance/recent.h"

#include <gtest/gtest.h>

namespace baton::instance {
namespace {

RunKey Key(const std::string& id, uint32_t attempt = 1, wire::Phase phase = wire::Phase::kFull) {
  return {{"tenant", id}, Attempt(attempt), phase};
}

wire::Event Done(const std::string& text) {
  wire::Event event;
  event.kind = wire::EventKind::kGenerationDone;
  event.output.text = text;
  return event;
}

TEST(RecentRuns, ARepeatOfTheSameRunIsNotStartedAgain) {
  RecentRuns runs(10);
  EXPECT_TRUE(runs.Start(Key("a"), 1));
  EXPECT_FALSE(runs.Start(Key("a"), 2));
  EXPECT_EQ(runs.Find(Key("a"))->exec_id, 1U);
}

TEST(RecentRuns, AnotherAttemptOrPhaseIsAnotherRun) {
  RecentRuns runs(10);
  EXPECT_TRUE(runs.Start(Key("a"), 1));
  EXPECT_TRUE(runs.Start(Key("a", 2), 2));
  EXPECT_TRUE(runs.Start(Key("a", 1, wire::Phase::kContext), 3));
  EXPECT_EQ(runs.Find(Key("a", 2))->exec_id, 2U);
}

TEST(RecentRuns, AFinishedRunKeepsItsLatestEventAndItsLease) {
  RecentRuns runs(10);
  runs.Start(Key("a"), 1);
  wire::Event event = Done("first");
  event.handoff.emplace().lease = 77;
  runs.Finish(Key("a"), event);
  ASSERT_NE(runs.Find(Key("a")), nullptr);
  EXPECT_EQ(runs.Find(Key("a"))->last_event->output.text, "first");
  EXPECT_EQ(runs.Find(Key("a"))->lease, 77U);
}

TEST(RecentRuns, ForgetsTheOldestFinishedRunAndNeverARunningOne) {
  RecentRuns runs(2);
  runs.Start(Key("running"), 9);
  for (const char* id : {"a", "b", "c"}) {
    runs.Start(Key(id), 1);
    runs.Finish(Key(id), Done(id));
  }
  EXPECT_EQ(runs.Find(Key("a")), nullptr);
  EXPECT_NE(runs.Find(Key("b")), nullptr);
  EXPECT_NE(runs.Find(Key("c")), nullptr);
  EXPECT_NE(runs.Find(Key("running")), nullptr);
  EXPECT_EQ(runs.size(), 3U);
}

}  // namespace
}  // namespace baton::instance
