#include "src/controller/controller.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/controller/testing.h"
#include "src/wire/codec.h"

namespace baton::controller {
namespace {

using testing::Actor;
using testing::Cluster;
using wire::EventKind;
using wire::Outcome;
using wire::Role;

using namespace std::chrono_literals;

void Silent(Actor&, const wire::Assignment&) {}

bool Done(const Cluster& cluster, const std::string& id) { return !cluster.Of(id).empty(); }

TEST(Controller, RequestRunsUnsplitOnAMixedInstance) {
  Cluster cluster;
  Actor& m = cluster.Add("m0");
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  cluster.Submit(cluster.Request("a"));
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "a"); }, 500));
  const wire::ResultRecord result = cluster.Of("a")[0];
  EXPECT_EQ(result.outcome, Outcome::kOk);
  EXPECT_EQ(result.correlation_id, "c-a");
  EXPECT_EQ(result.attempt, Attempt(1));
  ASSERT_EQ(m.runs.size(), 1u);
  EXPECT_EQ(m.runs[0].phase, wire::Phase::kFull);
  EXPECT_TRUE(m.runs[0].request->sampling.seed) << "fixed by the controller";
  ASSERT_TRUE(cluster.Run([&] { return cluster.controller->ledger().in_flight() == 0; }));
}

TEST(Controller, RequestIsSplitWhereBothRolesServe) {
  Cluster cluster;
  Actor& c = cluster.Add("c0", Role::kContext);
  Actor& g = cluster.Add("g0", Role::kGeneration);
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  wire::Request request = cluster.Request("a");
  request.want_provenance = true;
  cluster.Submit(request);
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "a"); }, 500));
  EXPECT_EQ(cluster.Of("a")[0].output.text, "done by g0");
  ASSERT_TRUE(cluster.Of("a")[0].provenance);
  EXPECT_EQ(cluster.Of("a")[0].provenance->context_instance, "c0");
  ASSERT_EQ(c.runs.size(), 1u);
  ASSERT_EQ(g.runs.size(), 1u);
  EXPECT_EQ(g.runs[0].first_tokens, std::vector<int32_t>{4});
  EXPECT_EQ(g.runs[0].handoff->instance, "c0");
}

TEST(Controller, RequestWaitsForTheFirstInstance) {
  Cluster cluster;
  cluster.Submit(cluster.Request("a"));
  cluster.Pass(2s);
  EXPECT_FALSE(Done(cluster, "a"));
  cluster.Add("m0");
  EXPECT_TRUE(cluster.Run([&] { return Done(cluster, "a"); }));
}

TEST(Controller, SilentInstanceIsDeadInTimeAndItsWorkRunsElsewhere) {
  Cluster cluster;
  Actor& m0 = cluster.Add("m0");
  m0.behaviour = Silent;
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  cluster.Submit(cluster.Request("a"));
  ASSERT_TRUE(cluster.Run([&] { return !m0.runs.empty(); }));
  cluster.Add("m1");
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  cluster.Remove("m0");
  const MonoTime died = cluster.clock.Now();
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "a"); }));
  EXPECT_LE(cluster.clock.Now() - died, 9s) << "heartbeat timeout and a second";
  EXPECT_EQ(cluster.Of("a")[0].attempt, Attempt(2));
  EXPECT_EQ(cluster.Of("a")[0].output.text, "done by m1");
}

TEST(Controller, SuspectInstanceGetsNoNewWork) {
  Cluster cluster;
  cluster.Add("m0").beating = false;
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  cluster.Pass(4s);
  cluster.Submit(cluster.Request("a"));
  cluster.Pass(1s);
  EXPECT_TRUE(cluster.actors["m0"]->runs.empty());
}

TEST(Controller, HeartbeatsWithoutProgressAreNamedSickAndRerouted) {
  Options options;
  options.liveness.stall = 5s;
  Cluster cluster(options);
  Actor& m0 = cluster.Add("m0");
  m0.behaviour = Silent;
  m0.moving = false;
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  cluster.Submit(cluster.Request("a"));
  ASSERT_TRUE(cluster.Run([&] { return !m0.runs.empty(); }));
  cluster.Add("m1");
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "a"); }));
  EXPECT_EQ(cluster.Of("a")[0].output.text, "done by m1");
  // It still beats: it is told that it is over.
  EXPECT_TRUE(cluster.Run([&] { return m0.refusal.has_value(); }));
}

TEST(Controller, NewIncarnationReplacesTheFirstAtOnce) {
  Cluster cluster;
  Actor& first = cluster.Add("m0");
  first.behaviour = Silent;
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  const InstanceEpoch epoch = first.grant->instance_epoch;
  cluster.Submit(cluster.Request("a"));
  ASSERT_TRUE(cluster.Run([&] { return !first.runs.empty(); }));
  const wire::Assignment old_run = first.runs[0];
  cluster.Remove("m0");
  Actor& second = cluster.Add("m0");
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "a"); }, 3'000)) << "no heartbeat timeout";
  EXPECT_GT(second.grant->instance_epoch, epoch);
  EXPECT_EQ(cluster.Of("a")[0].attempt, Attempt(2));
  // A late word of the first life changes nothing.
  second.Answer(old_run, EventKind::kGenerationDone);
  cluster.Pass(1s);
  EXPECT_EQ(cluster.Of("a").size(), 1u);
  EXPECT_EQ(cluster.controller->ledger().in_flight(), 0u);
}

TEST(Controller, RequestThatEndsTwoInstancesIsQuarantinedAndItsCompanyUnharmed) {
  Cluster cluster;
  const auto crash = [&cluster](Actor& actor, const wire::Assignment& run) {
    if (run.to.id.request_id == "poison") {
      actor.beating = false;  // and says nothing any more
      actor.registers = false;
    } else if (actor.beating) {
      actor.Answer(run, EventKind::kGenerationDone);
    }
  };
  for (const char* name : {"m0", "m1", "m2"}) cluster.Add(name).behaviour = crash;
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  cluster.Submit(cluster.Request("poison"));
  for (int i = 0; i < 6; ++i) cluster.Submit(cluster.Request("good" + std::to_string(i)));
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "poison"); }, 60'000));
  EXPECT_EQ(cluster.Of("poison")[0].outcome, Outcome::kDead);
  ASSERT_TRUE(cluster.Run([&] {
    for (int i = 0; i < 6; ++i) {
      if (!Done(cluster, "good" + std::to_string(i))) return false;
    }
    return true;
  }));
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(cluster.Of("good" + std::to_string(i))[0].outcome, Outcome::kOk);
  }
  const auto dead = cluster.ReadAll(cluster.topics.Dead(), 1);
  ASSERT_EQ(dead.size(), 1u);
  const auto letter = wire::DecodeDeadLetter(*dead[0].value);
  ASSERT_TRUE(letter.ok());
  EXPECT_EQ(letter->stage, "quarantine");
  EXPECT_TRUE(wire::DecodeRequest(letter->value).ok()) << "it can be driven again";
}

TEST(Controller, DrainedInstanceHandsItsWorkOnWithoutCountingADeath) {
  Cluster cluster;
  Actor& m0 = cluster.Add("m0");
  m0.behaviour = Silent;
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  cluster.Submit(cluster.Request("a"));
  ASSERT_TRUE(cluster.Run([&] { return !m0.runs.empty(); }));
  m0.draining = true;
  m0.in_step = {{"t", "a"}};
  m0.Beat();
  cluster.Pass(10ms);
  cluster.Remove("m0");
  cluster.Add("m1");
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "a"); }, 5'000)) << "before it were dead";
  EXPECT_EQ(cluster.controller->ledger().stats().deaths, 0u);
}

TEST(Controller, RepeatsRunOnceAndGetCopies) {
  Cluster cluster;
  Actor& m = cluster.Add("m0");
  m.behaviour = Silent;
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  cluster.Submit(cluster.Request("a"));
  ASSERT_TRUE(cluster.Run([&] { return !m.runs.empty(); }));
  wire::Request second = cluster.Request("a");
  second.correlation_id = "other client";
  cluster.Submit(second);
  cluster.Pass(50ms);
  m.Answer(m.runs[0], EventKind::kGenerationDone);
  ASSERT_TRUE(cluster.Run([&] { return cluster.Of("a", wire::ResultKind::kCopy).size() == 1; }));
  EXPECT_EQ(cluster.Of("a", wire::ResultKind::kCopy)[0].correlation_id, "other client");
  second.correlation_id = "long after";
  cluster.Submit(second);
  ASSERT_TRUE(cluster.Run([&] { return cluster.Of("a", wire::ResultKind::kCopy).size() == 2; }));
  const wire::ResultRecord copy = cluster.Of("a", wire::ResultKind::kCopy)[1];
  EXPECT_EQ(copy.output.tokens, (std::vector<int32_t>{4, 5, 6}));
  EXPECT_GE(copy.original_offset, 0);
  EXPECT_EQ(cluster.Of("a").size(), 1u);
  EXPECT_EQ(m.runs_begun, 1u);
}

TEST(Controller, SameIdentityWithOtherContentIsAConflict) {
  Cluster cluster;
  cluster.Add("m0");
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  cluster.Submit(cluster.Request("a"));
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "a"); }));
  wire::Request other = cluster.Request("a");
  other.prompt_text = "something else";
  cluster.Submit(other);
  ASSERT_TRUE(
      cluster.Run([&] { return cluster.Of("a", wire::ResultKind::kConflict).size() == 1; }));
  EXPECT_EQ(cluster.actors["m0"]->runs_begun, 1u);
}

TEST(Controller, ReplyTopicGetsACopyIfItIsAllowed) {
  Options options;
  options.reply_topics = {"replies"};
  Cluster cluster(options);
  cluster.Add("m0");
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  wire::Request request = cluster.Request("a");
  request.reply_topic = "replies";
  cluster.Submit(request);
  ASSERT_TRUE(cluster.Run([&] { return !cluster.ReadAll("replies", 2).empty(); }));
  const auto copy = wire::DecodeResult(*cluster.ReadAll("replies", 2)[0].value);
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(copy->kind, wire::ResultKind::kCopy);
  request.id.request_id = "b";
  request.reply_topic = cluster.topics.Ledger();  // a client must not write there
  cluster.Submit(request);
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "b"); }));
  EXPECT_EQ(cluster.Of("b")[0].outcome, Outcome::kError);
  EXPECT_TRUE(cluster.Of("b")[0].error->client_fault);
}

TEST(Controller, CancelWorksInEveryPhase) {
  Cluster cluster;
  Actor& c = cluster.Add("c0", Role::kContext);
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  const auto cancelled = [&](const std::string& id) {
    CHECK_OK(cluster.client->Cancel({"t", id}));
    const bool ended = cluster.Run([&] { return Done(cluster, id); }, 1'000);
    return ended && cluster.Of(id)[0].outcome == Outcome::kCancelled;
  };
  // Before arrival.
  CHECK_OK(cluster.client->Cancel({"t", "early"}));
  cluster.Pass(50ms);
  cluster.Submit(cluster.Request("early"));
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "early"); }));
  EXPECT_EQ(cluster.Of("early")[0].outcome, Outcome::kCancelled);
  // In the queue: nobody generates yet.
  cluster.Submit(cluster.Request("queued"));
  cluster.Pass(50ms);
  EXPECT_TRUE(cancelled("queued"));
  // In prefill.
  Actor& g = cluster.Add("g0", Role::kGeneration);
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  const auto answer = c.behaviour;
  c.behaviour = Silent;
  cluster.Submit(cluster.Request("prefill"));
  ASSERT_TRUE(cluster.Run([&] { return c.runs.size() == 1; }));
  EXPECT_TRUE(cancelled("prefill"));
  EXPECT_EQ(c.cancels.size(), 1u);
  // In decode: both sides hear of it.
  c.behaviour = answer;
  g.behaviour = Silent;
  cluster.Submit(cluster.Request("decode"));
  ASSERT_TRUE(cluster.Run([&] { return g.runs.size() == 1; }));
  EXPECT_TRUE(cancelled("decode"));
  cluster.Pass(50ms);
  EXPECT_EQ(g.cancels.size(), 1u);
  EXPECT_EQ(c.cancels.size(), 2u);
  // The next one is served.
  g.behaviour = answer;
  cluster.Submit(cluster.Request("next"));
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "next"); }));
  EXPECT_EQ(cluster.Of("next")[0].outcome, Outcome::kOk);
}

TEST(Controller, CancelOfAJobEndsAllOfIt) {
  Cluster cluster;
  cluster.Add("m0").behaviour = Silent;
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  for (int i = 0; i < 20; ++i) {
    wire::Request request = cluster.Request("j" + std::to_string(i));
    request.job = "job";
    cluster.Submit(request);
  }
  cluster.Pass(50ms);
  CHECK_OK(cluster.client->CancelJob("t", "job"));
  ASSERT_TRUE(cluster.Run([&] { return cluster.results.size() == 20; }));
  for (const wire::ResultRecord& result : cluster.results) {
    EXPECT_EQ(result.outcome, Outcome::kCancelled);
  }
}

TEST(Controller, DeadlineInTheQueueAndInDecode) {
  Cluster cluster;
  wire::Request request = cluster.Request("queued");
  request.deadline_ms = cluster.clock.WallNow().ms + 1'000;
  cluster.Submit(request);
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "queued"); }, 1'100));
  EXPECT_EQ(cluster.Of("queued")[0].outcome, Outcome::kExpired);
  Actor& m = cluster.Add("m0");
  m.behaviour = Silent;
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  request = cluster.Request("decode");
  request.deadline_ms = cluster.clock.WallNow().ms + 1'000;
  cluster.Submit(request);
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "decode"); }, 1'700));
  EXPECT_EQ(cluster.Of("decode")[0].outcome, Outcome::kExpired);
  cluster.Pass(50ms);
  EXPECT_EQ(m.cancels.size(), 1u) << "no compute afterwards";
}

TEST(Controller, PoisonBytesGoToTheDeadLettersAndIntakeMovesOn) {
  Cluster cluster;
  cluster.Add("m0");
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  auto producer = cluster.bus->NewProducer("hostile");
  ASSERT_TRUE(producer.ok());
  const std::string topic = cluster.topics.Requests(wire::Priority::kNormal);
  const std::string good = wire::Encode(cluster.Request("x"));
  for (const std::string& bytes : {std::string("garbage"), std::string(), good.substr(0, 40),
                                   wire::Encode(wire::Heartbeat{})}) {
    CHECK_OK((*producer)->Produce({topic, 2, "", bytes, {{"h", "v"}}}, nullptr));
  }
  CHECK_OK(
      (*producer)->Produce({topic, 2, "t/a", wire::Encode(cluster.Request("a")), {}}, nullptr));
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "a"); }));
  const auto dead = cluster.ReadAll(cluster.topics.Dead(), 1);
  ASSERT_EQ(dead.size(), 4u);
  const auto letter = wire::DecodeDeadLetter(*dead[0].value);
  ASSERT_TRUE(letter.ok());
  EXPECT_EQ(letter->value, "garbage");
  EXPECT_EQ(letter->topic, topic);
  EXPECT_EQ(letter->partition, 2);
  EXPECT_EQ(letter->offset, 0);
  EXPECT_FALSE(letter->stage.empty());
  EXPECT_EQ(cluster.controller->stats().dead_letters, 4u);
  EXPECT_EQ(cluster.controller->ledger().stats().received, 1u) << "counted apart";
  // Intake moved past them: a new controller reads none again.
  cluster.Pass(500ms);
  cluster.RestartController();
  ASSERT_TRUE(cluster.Run([&] { return cluster.controller->ready(); }));
  cluster.Pass(100ms);
  EXPECT_EQ(cluster.controller->stats().requests, 0u);
}

TEST(Controller, UnservableRequestIsAnsweredWithTheReason) {
  Cluster cluster;
  cluster.Add("m0");
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  wire::Request request = cluster.Request("zero");
  request.max_tokens = 0;
  cluster.Submit(request);
  request = cluster.Request("model");
  request.model = "unknown";
  cluster.Submit(request);
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "zero") && Done(cluster, "model"); }));
  EXPECT_NE(cluster.Of("zero")[0].error->message.find("max_tokens"), std::string::npos);
  EXPECT_NE(cluster.Of("model")[0].error->message.find("unknown"), std::string::npos);
  EXPECT_EQ(cluster.actors["m0"]->runs_begun, 0u);
}

TEST(Controller, CreditsBoundWhatAnInstanceHolds) {
  Cluster cluster;
  Actor& m = cluster.Add("m0");
  m.behaviour = Silent;
  m.registration.max_running = 3;
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  for (int i = 0; i < 20; ++i) cluster.Submit(cluster.Request(std::to_string(i)));
  cluster.Pass(100ms);
  EXPECT_EQ(m.held, 3u);
  size_t answered = 0;
  ASSERT_TRUE(cluster.Run([&] {
    while (answered < m.runs.size()) m.Answer(m.runs[answered++], EventKind::kGenerationDone);
    return cluster.results.size() == 20;
  }));
  EXPECT_LE(m.held_max, 3u);
}

TEST(Controller, CreditsAreInBytesToo) {
  Cluster cluster;
  Actor& m = cluster.Add("m0");
  m.behaviour = Silent;
  m.registration.max_bytes = 20'000;
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  for (int i = 0; i < 4; ++i) {
    wire::Request request = cluster.Request(std::to_string(i));
    request.prompt_text = std::string(9'000, 'x');
    cluster.Submit(request);
  }
  cluster.Pass(100ms);
  EXPECT_EQ(m.held, 2u);
}

TEST(Controller, LowClassProgressesUnderAHotHighClass) {
  Options options;
  options.ledger.in_flight_max = 64;
  Cluster cluster(options);
  Actor& m = cluster.Add("m0");
  m.registration.max_running = 2;
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  wire::Request low = cluster.Request("low");
  low.priority = wire::Priority::kBatch;
  int sent = 0;
  const auto heat = [&] {
    for (int i = 0; i < 40; ++i) {
      wire::Request high = cluster.Request("high" + std::to_string(sent++));
      high.priority = wire::Priority::kHigh;
      cluster.Submit(high);
    }
  };
  heat();
  cluster.Submit(low);
  int turns = 0;
  ASSERT_TRUE(cluster.Run(
      [&] {
        if (++turns % 5 == 0 && turns < 15'000) heat();
        return Done(cluster, "low");
      },
      15'000))
      << cluster.controller->StatsLine();
  EXPECT_LT(cluster.results.size(), static_cast<size_t>(sent)) << "the high class was never idle";
}

TEST(Controller, IntakePausesWhenFullWhileResultsFlowAndSkipsNothing) {
  Options options;
  options.ledger.in_flight_max = 10;
  Cluster cluster(options);
  Actor& m = cluster.Add("m0");
  m.behaviour = Silent;
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  for (int i = 0; i < 50; ++i) cluster.Submit(cluster.Request(std::to_string(i)));
  ASSERT_TRUE(cluster.Run([&] { return cluster.controller->intake_paused(); }));
  EXPECT_LE(cluster.controller->ledger().in_flight(), 10u);
  size_t answered = 0;
  size_t in_flight_max = 0;
  ASSERT_TRUE(cluster.Run([&] {
    in_flight_max = std::max(in_flight_max, cluster.controller->ledger().in_flight());
    while (answered < m.runs.size()) m.Answer(m.runs[answered++], EventKind::kGenerationDone);
    return cluster.results.size() == 50;
  }));
  EXPECT_LE(in_flight_max, 10u);
  EXPECT_GE(cluster.controller->stats().pauses, 2u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(cluster.Of(std::to_string(i)).size(), 1u) << i;
}

TEST(Controller, RestartInMidFlightLosesNothingAndAnswersNothingTwice) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    bus::SimOptions sim;
    sim.seed = seed;
    sim.visible_delay_max = 2ms;
    sim.delivery_delay_max = 3ms;
    Cluster cluster(Options(), sim);
    cluster.Add("c0", Role::kContext);
    cluster.Add("c1", Role::kContext);
    cluster.Add("g0", Role::kGeneration);
    cluster.Add("m0");
    ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
    Rng rng(seed);
    int sent = 0;
    for (int restart = 0; restart < 4; ++restart) {
      for (int i = 0; i < 15; ++i) cluster.Submit(cluster.Request(std::to_string(sent++)));
      for (uint64_t i = rng.Below(30); i > 0; --i) cluster.Step();
      cluster.RestartController();
    }
    ASSERT_TRUE(cluster.Run([&] {
      for (int i = 0; i < sent; ++i) {
        if (!Done(cluster, std::to_string(i))) return false;
      }
      return cluster.controller->ledger().in_flight() == 0;
    })) << "seed="
        << seed << " " << cluster.controller->StatsLine() << " " << cluster.failed.ToString();
    cluster.Pass(500ms);
    for (int i = 0; i < sent; ++i) {
      EXPECT_EQ(cluster.Of(std::to_string(i)).size(), 1u) << "seed=" << seed << " request " << i;
    }
  }
}

TEST(Controller, ResultThatWasPublishedBeforeARestartIsACopyAfterwards) {
  Cluster cluster;
  Actor& m = cluster.Add("m0");
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  cluster.Submit(cluster.Request("a"));
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "a"); }));
  cluster.RestartController();
  cluster.Submit(cluster.Request("a"));
  ASSERT_TRUE(cluster.Run([&] { return cluster.Of("a", wire::ResultKind::kCopy).size() == 1; }));
  EXPECT_EQ(m.runs_begun, 1u);
  EXPECT_EQ(cluster.controller->ledger().epoch(), ControllerEpoch(2));
  EXPECT_EQ(m.controller_epoch, ControllerEpoch(2)) << "announced to the leased slot";
}

TEST(Controller, BrokerThatIsAwayKillsNobody) {
  Cluster cluster;
  cluster.Add("m0");
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  cluster.bus->SetDown(true);
  cluster.Pass(30s);
  cluster.bus->SetDown(false);
  cluster.Pass(10s);
  EXPECT_EQ(cluster.controller->stats().deaths, 0u);
  EXPECT_EQ(cluster.controller->stats().cut_offs, 1u);
  cluster.Submit(cluster.Request("a"));
  EXPECT_TRUE(cluster.Run([&] { return Done(cluster, "a"); }));
}

TEST(Controller, LostEventsAreAskedForAgain) {
  Cluster cluster;
  Actor& m = cluster.Add("m0");
  m.behaviour = Silent;
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  cluster.Submit(cluster.Request("a"));
  ASSERT_TRUE(cluster.Run([&] { return !m.runs.empty(); }));
  // The answer is written and dropped by retention before the controller reads it.
  m.Answer(m.runs[0], EventKind::kGenerationDone);
  for (int32_t p = 0; p < wire::Topics::kEventPartitions; ++p) {
    CHECK_OK(cluster.bus->DropBefore(cluster.topics.Events(), p, 1'000));
  }
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "a"); }));
  EXPECT_EQ(m.runs_begun, 1u);
  EXPECT_GE(cluster.controller->stats().losses, 1u);
}

TEST(Controller, ResultTooLargeIsReplacedByASmallErrorRecord) {
  bus::SimOptions sim;
  sim.max_record_bytes = 100'000;
  Cluster cluster(Options(), sim);
  Actor& m = cluster.Add("m0");
  m.behaviour = Silent;
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  wire::Request large = cluster.Request("large");
  large.correlation_id = std::string(1'000, 'c');
  cluster.Submit(large);
  cluster.Submit(cluster.Request("small"));
  ASSERT_TRUE(cluster.Run([&] { return m.runs.size() == 2; }));
  for (const wire::Assignment& run : m.runs) {
    wire::Event event;
    event.from = run.to;
    event.kind = EventKind::kGenerationDone;
    event.phase = run.phase;
    event.output.finish = wire::FinishReason::kLength;
    // The event just fits, the result with its correlation id and headers does not.
    const size_t bytes = run.to.id.request_id == "large" ? 99'000 : 10;
    event.output.text = std::string(bytes, 'x');
    m.Send(event);
  }
  ASSERT_TRUE(cluster.Run([&] { return Done(cluster, "large") && Done(cluster, "small"); }));
  EXPECT_EQ(cluster.Of("small")[0].outcome, Outcome::kOk) << "the others are unharmed";
  EXPECT_EQ(cluster.Of("large")[0].outcome, Outcome::kError);
  EXPECT_EQ(cluster.controller->ledger().stats().results_replaced, 1u);
}

TEST(Controller, LayoutsThatCannotMeetAreRefusedNamingBoth) {
  Options options;
  options.check_pairing = [](const wire::Layout& context, const wire::Layout& generation) {
    if (context.weights_hash == generation.weights_hash) return OkStatus();
    return FailedPreconditionError("weights " + context.weights_hash + " and " +
                                   generation.weights_hash);
  };
  Cluster cluster(options);
  cluster.Add("c0", Role::kContext).registration.layout.weights_hash = "aaa";
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  Actor& g = cluster.Add("g0", Role::kGeneration);
  g.registration.layout.weights_hash = "bbb";
  ASSERT_TRUE(cluster.Run([&] { return g.refusal.has_value(); }));
  const std::string why = g.refusal->refusal.message();
  EXPECT_NE(why.find("aaa"), std::string::npos);
  EXPECT_NE(why.find("bbb"), std::string::npos);
  EXPECT_FALSE(g.grant);
}

TEST(Controller, ClockThatIsFarOffIsRefused) {
  Cluster cluster;
  Actor& m = cluster.Add("m0");
  m.registration.wall_ms = cluster.clock.WallNow().ms - 6'000;
  ASSERT_TRUE(cluster.Run([&] { return m.refusal.has_value(); }));
  EXPECT_EQ(m.refusal->refusal.code(), StatusCode::kFailedPrecondition);
}

TEST(Controller, FailureIsRetriedOnAnotherInstance) {
  Cluster cluster;
  Actor& m0 = cluster.Add("m0");
  m0.behaviour = [](Actor& actor, const wire::Assignment& run) {
    actor.Answer(run, EventKind::kFailed);
  };
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  cluster.Add("m1");
  ASSERT_TRUE(cluster.Run([&] { return cluster.AllReady(); }));
  for (int i = 0; i < 8; ++i) cluster.Submit(cluster.Request(std::to_string(i)));
  ASSERT_TRUE(cluster.Run([&] { return cluster.results.size() == 8; }));
  for (const wire::ResultRecord& result : cluster.results) {
    EXPECT_EQ(result.outcome, Outcome::kOk);
    EXPECT_LE(result.attempt, Attempt(2));
  }
  EXPECT_GT(m0.runs_begun, 0u);
}

}  // namespace
}  // namespace baton::controller
