#include "src/instance/leader.h"

#include <gtest/gtest.h>

#include <deque>

#include "src/bus/sim/sim_bus.h"
#include "src/text/testing.h"
#include "src/wire/codec.h"

namespace baton::instance {
namespace {

// The engine's side of the seam, played by the test: what was enqueued is finished on demand.
class ScriptedExecutor : public engine::Executor {
 public:
  Result<engine::ExecId> Enqueue(engine::ExecRequest request) override {
    enqueued.push_back(std::move(request));
    return static_cast<engine::ExecId>(enqueued.size());
  }
  std::vector<engine::ExecResponse> AwaitAny(Nanos) override {
    std::vector<engine::ExecResponse> due(ready.begin(), ready.end());
    ready.clear();
    return due;
  }
  std::vector<engine::ExecResponse> Await(std::span<const engine::ExecId>, Nanos) override {
    return {};
  }
  void Cancel(engine::ExecId id) override { cancelled.push_back(id); }
  void WithdrawLease(uint64_t lease) override { withdrawn.push_back(lease); }
  engine::ExecStats stats() const override { return {}; }
  Status health() const override { return lost; }
  void Shutdown(bool, Nanos) override {}

  std::vector<engine::ExecRequest> enqueued;
  std::deque<engine::ExecResponse> ready;
  std::vector<engine::ExecId> cancelled;
  std::vector<uint64_t> withdrawn;
  Status lost;
};

class LeaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<bus::TopicSettings> topics;
    for (const wire::TopicSpec& spec : topics_.All())
      topics.push_back({spec.name, spec.partitions, {}});
    ASSERT_TRUE(bus_.Provision(topics, Nanos::zero()).ok());
    producer_ = std::move(bus_.NewProducer("controller")).value();
    events_ = std::move(bus_.NewConsumer("controller")).value();
    std::vector<bus::StartPoint> starts;
    for (int p = 0; p < wire::Topics::kEventPartitions; ++p)
      starts.push_back({topics_.Events(), p});
    ASSERT_TRUE(events_->Assign(starts).ok());
    tokenizer_ = std::move(text::Tokenizer::Create(text::SmallSpec())).value();
    LeaderOptions options;
    options.registration.instance = "gen-0";
    leader_ = std::move(Leader::Create(options, &bus_, &clock_)).value();
    grant_.instance = "gen-0";
    grant_.controller_epoch = ControllerEpoch(5);
    grant_.instance_epoch = InstanceEpoch(3);
    grant_.slot = Slot(7);
    grant_.lease = LeaseNumber(11);
    ASSERT_TRUE(leader_->Begin(grant_, {&executor_, &model_, tokenizer_.get()}).ok());
  }

  wire::Assignment Run(const std::string& id) const {
    wire::Assignment assignment;
    assignment.to = {
        {"t", id},   Attempt(1), grant_.controller_epoch, "gen-0", grant_.instance_epoch,
        grant_.lease};
    assignment.request.emplace().id = {"t", id};
    assignment.request->prompt_tokens = {1, 2, 3};
    return assignment;
  }

  Status Deliver(const wire::Assignment& assignment) {
    EXPECT_TRUE(
        producer_
            ->Produce({topics_.Assign(), 7, assignment.to.id.Key(), wire::Encode(assignment), {}},
                      {})
            .ok());
    producer_->Poll(Nanos::zero());
    return leader_->Step(/*accept=*/true);
  }

  void FinishOk(engine::ExecId id) {
    engine::ExecResponse response;
    response.id = id;
    response.final = true;
    response.tokens = {4, 5};
    response.text = "hi";
    response.finish = wire::FinishReason::kLength;
    executor_.ready.push_back(response);
    ASSERT_TRUE(leader_->Step(true).ok());
  }

  std::vector<wire::Event> Events() {
    std::vector<wire::Event> events;
    while (true) {
      Result<std::optional<bus::Record>> record = events_->Poll(Nanos::zero());
      if (!record.ok() || !record->has_value()) return events;
      events.push_back(wire::DecodeEvent(*(*record)->value).value());
    }
  }

  ManualClock clock_;
  bus::SimBus bus_{clock_, {}};
  wire::Topics topics_;
  std::unique_ptr<bus::Producer> producer_;
  std::unique_ptr<bus::Consumer> events_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  model::Config model_;
  ScriptedExecutor executor_;
  wire::Grant grant_;
  std::unique_ptr<Leader> leader_;
};

TEST_F(LeaderTest, AnAssignmentIsAcceptedRunAndAnsweredWithItsAddress) {
  const wire::Assignment run = Run("a");
  ASSERT_TRUE(Deliver(run).ok());
  ASSERT_EQ(executor_.enqueued.size(), 1U);
  EXPECT_EQ(executor_.enqueued[0].prompt, (std::vector<int32_t>{1, 2, 3}));
  FinishOk(1);
  const std::vector<wire::Event> events = Events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].kind, wire::EventKind::kAccepted);
  EXPECT_EQ(events[1].kind, wire::EventKind::kGenerationDone);
  EXPECT_EQ(events[1].from, run.to);
  EXPECT_EQ(events[1].output.text, "hi");
}

TEST_F(LeaderTest, ARepeatedAssignmentGetsTheLatestEventAndNoSecondRun) {
  ASSERT_TRUE(Deliver(Run("a")).ok());
  FinishOk(1);
  Events();
  ASSERT_TRUE(Deliver(Run("a")).ok());
  EXPECT_EQ(executor_.enqueued.size(), 1U);
  const std::vector<wire::Event> events = Events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, wire::EventKind::kGenerationDone);
  EXPECT_EQ(leader_->stats().repeated, 1U);
}

TEST_F(LeaderTest, WhatIsAddressedToAnotherLifeIsDroppedAndCounted) {
  wire::Assignment old_epoch = Run("a");
  old_epoch.to.instance_epoch = InstanceEpoch(2);
  ASSERT_TRUE(Deliver(old_epoch).ok());
  wire::Assignment old_lease = Run("b");
  old_lease.to.lease = LeaseNumber(10);
  ASSERT_TRUE(Deliver(old_lease).ok());
  wire::Assignment old_controller = Run("c");
  old_controller.to.controller_epoch = ControllerEpoch(4);
  ASSERT_TRUE(Deliver(old_controller).ok());
  EXPECT_TRUE(executor_.enqueued.empty());
  EXPECT_EQ(leader_->stats().foreign, 2U);
  EXPECT_EQ(leader_->stats().stale_controller, 1U);
  EXPECT_TRUE(Events().empty());
}

TEST_F(LeaderTest, ASlotThatIsLeasedToAnotherEndsTheLeader) {
  wire::Assignment taken = Run("a");
  taken.to.instance = "gen-1";
  taken.to.lease = LeaseNumber(12);
  EXPECT_EQ(Deliver(taken).code(), StatusCode::kAborted);
}

TEST_F(LeaderTest, ANewerEpochOfItsNameEndsTheLeader) {
  wire::Assignment newer = Run("a");
  newer.to.instance_epoch = InstanceEpoch(4);
  EXPECT_EQ(Deliver(newer).code(), StatusCode::kAborted);
}

TEST_F(LeaderTest, ACancelReachesTheRunAndTheFinalResponseBecomesTheEvent) {
  ASSERT_TRUE(Deliver(Run("a")).ok());
  wire::Assignment cancel = Run("a");
  cancel.kind = wire::AssignmentKind::kCancel;
  cancel.request.reset();
  ASSERT_TRUE(Deliver(cancel).ok());
  EXPECT_EQ(executor_.cancelled, (std::vector<engine::ExecId>{1}));
  engine::ExecResponse response;
  response.id = 1;
  response.final = true;
  response.finish = wire::FinishReason::kCancelled;
  executor_.ready.push_back(response);
  ASSERT_TRUE(leader_->Step(true).ok());
  EXPECT_EQ(Events().back().kind, wire::EventKind::kCancelled);
}

TEST_F(LeaderTest, ACancelThatComesFirstKeepsTheRunFromStarting) {
  wire::Assignment cancel = Run("a");
  cancel.kind = wire::AssignmentKind::kCancel;
  cancel.request.reset();
  ASSERT_TRUE(Deliver(cancel).ok());
  ASSERT_TRUE(Deliver(Run("a")).ok());
  EXPECT_TRUE(executor_.enqueued.empty());
  EXPECT_EQ(Events().back().kind, wire::EventKind::kCancelled);
}

TEST_F(LeaderTest, AnUnknownModelIsTheClientsFault) {
  model_.name = "small";
  wire::Assignment run = Run("a");
  run.request->model = "large";
  ASSERT_TRUE(Deliver(run).ok());
  const std::vector<wire::Event> events = Events();
  ASSERT_EQ(events.size(), 1U);
  ASSERT_EQ(events[0].kind, wire::EventKind::kFailed);
  EXPECT_TRUE(events[0].error->client_fault);
  EXPECT_NE(events[0].error->message.find("'large' is not served here; this is 'small'"),
            std::string::npos);
}

TEST_F(LeaderTest, GarbageInTheSlotIsCountedAndTheLoopGoesOn) {
  ASSERT_TRUE(producer_->Produce({topics_.Assign(), 7, "x", "garbage", {}}, {}).ok());
  producer_->Poll(Nanos::zero());
  ASSERT_TRUE(leader_->Step(true).ok());
  EXPECT_EQ(leader_->stats().undecodable, 1U);
  ASSERT_TRUE(Deliver(Run("a")).ok());
  EXPECT_EQ(executor_.enqueued.size(), 1U);
}

TEST_F(LeaderTest, ALostEngineEndsTheLeader) {
  executor_.lost = InternalError("step 9 did not end");
  EXPECT_EQ(leader_->Step(true).message(), "step 9 did not end");
}

TEST_F(LeaderTest, WithoutDeliveryForTooLongTheBrokerCountsAsLost) {
  bus_.SetDown(true);
  ASSERT_TRUE(leader_->Step(true).ok());  // a heartbeat waits
  clock_.Advance(std::chrono::seconds(61));
  EXPECT_EQ(leader_->Step(true).code(), StatusCode::kUnavailable);
}

TEST_F(LeaderTest, AReleasedHandOffWithdrawsItsLease) {
  wire::Assignment context = Run("a");
  context.phase = wire::Phase::kContext;
  ASSERT_TRUE(Deliver(context).ok());
  engine::ExecResponse response;
  response.id = 1;
  response.final = true;
  response.tokens = {4};
  response.handoff.emplace().lease = 99;
  executor_.ready.push_back(response);
  ASSERT_TRUE(leader_->Step(true).ok());
  EXPECT_EQ(Events().back().kind, wire::EventKind::kContextDone);
  wire::Assignment release = context;
  release.kind = wire::AssignmentKind::kReleaseHandoff;
  release.request.reset();
  ASSERT_TRUE(Deliver(release).ok());
  EXPECT_EQ(executor_.withdrawn, (std::vector<uint64_t>{99}));
}

}  // namespace
}  // namespace baton::instance
