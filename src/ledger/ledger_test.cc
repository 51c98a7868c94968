#include "src/ledger/ledger.h"

#include <gtest/gtest.h>

#include "src/ledger/testing.h"

namespace baton::ledger {
namespace {

using testing::Answer;
using testing::Instance;
using testing::Only;
using testing::Submit;
using wire::AssignmentKind;
using wire::EventKind;
using wire::Outcome;
using wire::Phase;
using wire::RequestState;

// Drives a ledger and remembers the last assignment to each side.
class LedgerTest : public ::testing::Test {
 protected:
  Effects Do(const Event& event) { return last_ = ledger_.Apply(event, now_); }

  wire::Assignment Assign(const std::string& id, Phase phase, const Target& target) {
    const Identity identity{"t", id};
    Do(Assigned{identity, ledger_.Find(identity)->record.attempt, phase, target});
    const auto sent = Only<SendAssignment>(last_);
    EXPECT_EQ(sent.size(), 1u);
    return sent.empty() ? wire::Assignment{} : sent[0].assignment;
  }
  wire::Assignment ToHandoff(const std::string& id) {
    const wire::Assignment context = Assign(id, Phase::kContext, Instance("c", 1));
    Do(FromInstance{Answer(context, EventKind::kContextDone)});
    EXPECT_EQ(State(id), RequestState::kHandoff);
    return context;
  }
  wire::Assignment ToGeneration(const std::string& id) {
    ToHandoff(id);
    return Assign(id, Phase::kGeneration, Instance("g", 2));
  }
  RequestState State(const std::string& id) const { return ledger_.Find({"t", id})->record.state; }
  std::optional<wire::ResultRecord> Terminal() const {
    const auto found = Only<PublishTerminal>(last_);
    if (found.size() != 1) return std::nullopt;
    return found[0].record;
  }
  // Of the assignments just sent, who was told to do `kind`.
  std::vector<std::string> Told(AssignmentKind kind) const {
    std::vector<std::string> names;
    for (const SendAssignment& sent : Only<SendAssignment>(last_)) {
      if (sent.assignment.kind == kind) names.push_back(sent.assignment.to.instance);
    }
    return names;
  }
  uint64_t Dropped(Drop reason) const {
    return ledger_.stats().dropped[static_cast<size_t>(reason)];
  }

  int64_t now_ = 1'000'000;
  Ledger ledger_{Limits{}, ControllerEpoch(3)};
  Effects last_;
};

TEST_F(LedgerTest, ReceivedIsRecordedBeforeItsPositionMoves) {
  Do(Submit("a", 10));
  ASSERT_EQ(last_.size(), 2u);
  const auto* write = std::get_if<WriteRecord>(&last_[0].action);
  ASSERT_NE(write, nullptr);
  EXPECT_EQ(write->record.state, RequestState::kReceived);
  EXPECT_EQ(write->record.request.sampling.seed, 99u) << "fixed at RECEIVED";
  EXPECT_EQ(write->record.controller_epoch, ControllerEpoch(3));
  ASSERT_NE(std::get_if<Settle>(&last_[1].action), nullptr);
}

TEST_F(LedgerTest, UnsplitRequestRunsAndItsResultIsTheCommitPoint) {
  Do(Submit("a", 10));
  const wire::Assignment run = Assign("a", Phase::kFull, Instance("m", 1));
  Do(FromInstance{Answer(run, EventKind::kAccepted)});
  EXPECT_TRUE(last_.empty());
  Do(FromInstance{Answer(run, EventKind::kGenerationDone)});
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kOk);
  EXPECT_TRUE(Only<WriteRecord>(last_).empty()) << "DONE comes after the result";
  Do(TerminalPublished{{"t", "a"}, 4, 77});
  const auto writes = Only<WriteRecord>(last_);
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].record.state, RequestState::kDone);
  EXPECT_EQ(writes[0].record.result_offset, 77);
  EXPECT_TRUE(writes[0].record.request.prompt_text.empty());
  EXPECT_EQ(ledger_.in_flight(), 0u);
}

TEST_F(LedgerTest, SplitRequestPassesItsHandOffToGeneration) {
  Do(Submit("a", 10));
  const wire::Assignment run = ToGeneration("a");
  EXPECT_EQ(run.phase, Phase::kGeneration);
  ASSERT_TRUE(run.handoff);
  EXPECT_EQ(run.handoff->instance, "c");
  EXPECT_EQ(run.first_tokens, std::vector<int32_t>{4});
  EXPECT_EQ(run.request->prompt_tokens, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_TRUE(run.request->prompt_text.empty()) << "one kind of prompt only";
  Do(FromInstance{Answer(run, EventKind::kGenerationDone)});
  EXPECT_EQ(Terminal()->outcome, Outcome::kOk);
}

TEST_F(LedgerTest, AnswerThatEndsWithItsFirstTokenNeedsNoGeneration) {
  Do(Submit("a", 10));
  const wire::Assignment run = Assign("a", Phase::kContext, Instance("c", 1));
  Do(FromInstance{Answer(run, EventKind::kGenerationDone)});
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kOk);
  EXPECT_EQ(Terminal()->output.finish, wire::FinishReason::kLength);
}

TEST_F(LedgerTest, ContextOnlyEndsWithTheContextPhase) {
  Submitted event = Submit("a", 10);
  event.request.kind = wire::RequestKind::kContextOnly;
  Do(event);
  const wire::Assignment run = Assign("a", Phase::kContext, Instance("c", 1));
  Do(FromInstance{Answer(run, EventKind::kContextDone)});
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->output.tokens, std::vector<int32_t>{4});
}

TEST_F(LedgerTest, GenerationOnlyUsesItsDescriptorOnce) {
  Submitted event = Submit("a", 10);
  event.request.kind = wire::RequestKind::kGenerationOnly;
  event.request.handoff = testing::Handoff({});
  event.request.first_tokens = {8};
  Do(event);
  EXPECT_EQ(ledger_.ready_count(Need::kFirstPhase), 0u);
  EXPECT_EQ(ledger_.ready_count(Need::kGeneration), 1u);
  const wire::Assignment run = Assign("a", Phase::kGeneration, Instance("g", 1));
  EXPECT_EQ(run.first_tokens, std::vector<int32_t>{8});
  Do(FromInstance{Answer(run, EventKind::kFailed)});
  ASSERT_TRUE(Terminal()) << "no second attempt with a used descriptor";
  EXPECT_EQ(Terminal()->outcome, Outcome::kError);
}

TEST_F(LedgerTest, ForeignHandOffIsAFailureOfTheInstance) {
  Do(Submit("a", 10));
  const wire::Assignment run = Assign("a", Phase::kContext, Instance("c", 1));
  wire::Event event = Answer(run, EventKind::kContextDone);
  event.handoff->instance_epoch = InstanceEpoch(9);
  Do(FromInstance{event});
  EXPECT_EQ(State("a"), RequestState::kParked);
}

// ------------------------------------------------------------------ scenario 7 and 8: repeats

TEST_F(LedgerTest, RepeatInFlightRunsOnceAndWhoWaitsElsewhereGetsACopy) {
  Do(Submit("a", 10));
  Submitted repeat = Submit("a", 11);
  repeat.request.correlation_id = "second";
  Do(repeat);
  EXPECT_TRUE(Only<WriteRecord>(last_).empty());
  EXPECT_EQ(Only<Settle>(last_).size(), 1u);
  EXPECT_EQ(ledger_.in_flight(), 1u);
  const wire::Assignment run = Assign("a", Phase::kFull, Instance("m", 1));
  Do(FromInstance{Answer(run, EventKind::kGenerationDone)});
  Do(TerminalPublished{{"t", "a"}, 4, 77});
  const auto copies = Only<PublishCopy>(last_);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].correlation_id, "second");
  EXPECT_EQ(copies[0].offset, 77);
}

TEST_F(LedgerTest, RepeatOfAFinishedRequestGetsTheStoredResult) {
  Do(Submit("a", 10));
  const wire::Assignment run = Assign("a", Phase::kFull, Instance("m", 1));
  Do(FromInstance{Answer(run, EventKind::kGenerationDone)});
  Do(TerminalPublished{{"t", "a"}, 4, 77});
  Do(Submit("a", 20));
  const auto copies = Only<PublishCopy>(last_);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].partition, 4);
  EXPECT_FALSE(Terminal());
}

TEST_F(LedgerTest, SameIdentityWithOtherContentIsAConflictBeforeAndAfterTheEnd) {
  Do(Submit("a", 10));
  Submitted other = Submit("a", 11);
  other.content_hash = 8;
  Do(other);
  ASSERT_EQ(Only<PublishConflict>(last_).size(), 1u);
  EXPECT_EQ(Only<PublishConflict>(last_)[0].record.kind, wire::ResultKind::kConflict);
  const wire::Assignment run = Assign("a", Phase::kFull, Instance("m", 1));
  Do(FromInstance{Answer(run, EventKind::kGenerationDone)});
  Do(TerminalPublished{{"t", "a"}, 4, 77});
  other.source.offset = 12;
  Do(other);
  EXPECT_EQ(Only<PublishConflict>(last_).size(), 1u);
  EXPECT_EQ(ledger_.stats().conflicts, 2u);
}

TEST_F(LedgerTest, TheSameRecordReadAgainAfterARestartIsNoRepeat) {
  Do(Submit("a", 10));
  const wire::Assignment run = Assign("a", Phase::kFull, Instance("m", 1));
  Do(FromInstance{Answer(run, EventKind::kGenerationDone)});
  Do(TerminalPublished{{"t", "a"}, 4, 77});
  Do(Submit("a", 10));
  ASSERT_EQ(last_.size(), 1u);
  EXPECT_EQ(Only<Settle>(last_).size(), 1u);
}

TEST_F(LedgerTest, TwoTenantsMayUseTheSameRequestId) {
  Do(Submit("a", 10));
  Submitted other = Submit("a", 11);
  other.request.id.tenant = "u";
  other.content_hash = 8;
  Do(other);
  EXPECT_EQ(ledger_.in_flight(), 2u);
}

TEST_F(LedgerTest, RefusedRequestEndsAtOnceAndItsPositionWaitsForDone) {
  Submitted event = Submit("a", 10);
  event.refusal = wire::ErrorInfo{StatusCode::kInvalidArgument, "max_tokens: 0", true};
  Do(event);
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->error->message, "max_tokens: 0");
  EXPECT_TRUE(Only<Settle>(last_).empty());
  Do(TerminalPublished{{"t", "a"}, 1, 2});
  EXPECT_EQ(Only<Settle>(last_).size(), 1u);
}

// ------------------------------------------------------------------ scenario 10: deadlines

TEST_F(LedgerTest, DeadlineBeforeArrivalExpiresWithoutARun) {
  Do(Submit("a", 10, now_ - 1));
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kExpired);
}

TEST_F(LedgerTest, DeadlineInTheQueueExpiresOnTimeWithoutTraffic) {
  Do(Submit("a", 10, now_ + 100));
  now_ += 99;
  Do(Tick{});
  EXPECT_TRUE(last_.empty());
  now_ += 1;
  Do(Tick{});
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kExpired);
  EXPECT_EQ(ledger_.ready_count(Need::kFirstPhase), 0u) << "no compute afterwards";
}

TEST_F(LedgerTest, DeadlineInTheHandOffExpiresAndTellsTheContextSide) {
  Do(Submit("a", 10, now_ + 100));
  ToHandoff("a");
  now_ += 100;
  Do(Tick{});
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kExpired);
  EXPECT_EQ(Told(AssignmentKind::kCancel), std::vector<std::string>{"c"});
}

TEST_F(LedgerTest, DeadlineInDecodeIsTheInstancesToReportUntilTheSlackEnds) {
  Do(Submit("a", 10, now_ + 100));
  const wire::Assignment run = ToGeneration("a");
  now_ += 150;
  Do(Tick{});
  EXPECT_TRUE(last_.empty());
  wire::Event expired = Answer(run, EventKind::kExpired);
  expired.output.tokens = {4, 5};
  Do(FromInstance{expired});
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kExpired);
  EXPECT_EQ(Terminal()->output.tokens.size(), 2u) << "what was made so far is not lost";
}

TEST_F(LedgerTest, SilentInstancePastDeadlineAndSlackIsCancelledOnBothSides) {
  Do(Submit("a", 10, now_ + 100));
  ToGeneration("a");
  now_ += 600;
  Do(Tick{});
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kExpired);
  EXPECT_EQ(Told(AssignmentKind::kCancel), (std::vector<std::string>{"g", "c"}));
}

TEST_F(LedgerTest, DeadlineWhileParkedEndsTheWait) {
  Do(Submit("a", 10, now_ + 100));
  const wire::Assignment run = Assign("a", Phase::kFull, Instance("m", 1));
  Do(FromInstance{Answer(run, EventKind::kFailed)});
  now_ += 100;
  Do(Tick{});
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kExpired);
}

// ------------------------------------------------------------------ scenario 11: retries

TEST_F(LedgerTest, FailureParksWithDoublingBackOffAndKeepsTheDeadline) {
  Do(Submit("a", 10, now_ + 60'000));
  for (const int64_t backoff : {200, 400}) {
    const wire::Assignment run = Assign("a", Phase::kFull, Instance("m", 1));
    Do(FromInstance{Answer(run, EventKind::kFailed)});
    EXPECT_EQ(State("a"), RequestState::kParked);
    const wire::LedgerRequest& record = ledger_.Find({"t", "a"})->record;
    EXPECT_EQ(record.parked_until_ms, now_ + backoff);
    EXPECT_EQ(record.request.deadline_ms, 1'060'000);
    EXPECT_EQ(record.generation_instance, "m") << "known, so that another is preferred";
    EXPECT_EQ(ledger_.ready_count(Need::kFirstPhase), 0u);
    Do(Assigned{{"t", "a"}, record.attempt, Phase::kFull, Instance("m", 1)});
    EXPECT_TRUE(last_.empty()) << "not before it is due";
    now_ += backoff;
    Do(Tick{});
    EXPECT_EQ(ledger_.ready_count(Need::kFirstPhase), 1u);
  }
  const wire::Assignment run = Assign("a", Phase::kFull, Instance("m", 1));
  EXPECT_EQ(run.to.attempt, Attempt(3));
  Do(FromInstance{Answer(run, EventKind::kFailed)});
  ASSERT_TRUE(Terminal()) << "three reported failures are the end";
  EXPECT_EQ(Terminal()->error->message, "made to fail") << "verbatim";
}

TEST_F(LedgerTest, ClientFaultIsNeverRetried) {
  Do(Submit("a", 10));
  const wire::Assignment run = Assign("a", Phase::kContext, Instance("c", 1));
  wire::Event failed = Answer(run, EventKind::kFailed);
  failed.error->client_fault = true;
  Do(FromInstance{failed});
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kError);
}

TEST_F(LedgerTest, FailedGenerationReleasesTheHandOffAndStartsAgainAtContext) {
  Do(Submit("a", 10));
  const wire::Assignment run = ToGeneration("a");
  Do(FromInstance{Answer(run, EventKind::kFailed)});
  EXPECT_EQ(Told(AssignmentKind::kReleaseHandoff), std::vector<std::string>{"c"});
  now_ += 200;
  Do(Tick{});
  EXPECT_EQ(ledger_.ready_count(Need::kFirstPhase), 1u);
  EXPECT_FALSE(ledger_.Find({"t", "a"})->record.handoff);
}

TEST_F(LedgerTest, LeaseThatEndsBeforeAnybodyAsksIsRetriedWithoutCounting) {
  Do(Submit("a", 10));
  const wire::Assignment context = ToHandoff("a");
  Do(FromInstance{Answer(context, EventKind::kFailed)});
  EXPECT_EQ(State("a"), RequestState::kParked);
  EXPECT_EQ(ledger_.Find({"t", "a"})->record.failures, 0u);
}

TEST_F(LedgerTest, AssignmentThatCannotBeWrittenCountsAsAFailure) {
  Do(Submit("a", 10));
  const wire::Assignment run = Assign("a", Phase::kFull, Instance("m", 1));
  Do(AssignmentRefused{run.to, ResourceExhaustedError("too large")});
  EXPECT_EQ(ledger_.Find({"t", "a"})->record.failures, 1u);
}

// ------------------------------------------------------------------ scenarios 16c and 27: cancel

TEST_F(LedgerTest, CancelBeforeItsRequestIsAppliedOnArrival) {
  Do(CancelAsked{{"t", "a"}, {"ctl", 0, 1}});
  ASSERT_EQ(Only<WriteRecord>(last_).size(), 1u) << "kept in the ledger";
  now_ += 9 * 60'000;
  Do(Tick{});
  Do(Submit("a", 10));
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kCancelled);
}

TEST_F(LedgerTest, KeptCancelIsForgottenAfterTenMinutes) {
  Do(CancelAsked{{"t", "a"}, {"ctl", 0, 1}});
  now_ += 10 * 60'000;
  Do(Tick{});
  EXPECT_EQ(Only<WriteTombstone>(last_).size(), 1u);
  Do(Submit("a", 10));
  EXPECT_FALSE(Terminal());
}

TEST_F(LedgerTest, CancelInTheQueueEndsAtOnce) {
  Do(Submit("a", 10));
  Do(CancelAsked{{"t", "a"}, {"ctl", 0, 1}});
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kCancelled);
}

TEST_F(LedgerTest, CancelInPrefillWaitsForTheInstancesAnswer) {
  Do(Submit("a", 10));
  const wire::Assignment run = Assign("a", Phase::kContext, Instance("c", 1));
  Do(CancelAsked{{"t", "a"}, {"ctl", 0, 1}});
  EXPECT_FALSE(Terminal());
  EXPECT_EQ(Told(AssignmentKind::kCancel), std::vector<std::string>{"c"});
  Do(FromInstance{Answer(run, EventKind::kCancelled)});
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kCancelled);
}

TEST_F(LedgerTest, CancelThatMeetsAFinishedContextEndsItsLease) {
  Do(Submit("a", 10));
  const wire::Assignment run = Assign("a", Phase::kContext, Instance("c", 1));
  Do(CancelAsked{{"t", "a"}, {"ctl", 0, 1}});
  Do(FromInstance{Answer(run, EventKind::kContextDone)});
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kCancelled);
  EXPECT_EQ(Told(AssignmentKind::kCancel), std::vector<std::string>{"c"});
}

TEST_F(LedgerTest, CancelInTheHandOffGoesToBothSides) {
  Do(Submit("a", 10));
  ToGeneration("a");
  Do(CancelAsked{{"t", "a"}, {"ctl", 0, 1}});
  EXPECT_EQ(Told(AssignmentKind::kCancel), (std::vector<std::string>{"g", "c"}));
}

TEST_F(LedgerTest, CancelThatIsNeverAnsweredEndsInTime) {
  Do(Submit("a", 10));
  ToGeneration("a");
  Do(CancelAsked{{"t", "a"}, {"ctl", 0, 1}});
  now_ += 1'999;
  Do(Tick{});
  EXPECT_FALSE(Terminal());
  now_ += 1;
  Do(Tick{});
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kCancelled);
}

TEST_F(LedgerTest, ResultThatWasFasterThanTheCancelWins) {
  Do(Submit("a", 10));
  const wire::Assignment run = ToGeneration("a");
  Do(CancelAsked{{"t", "a"}, {"ctl", 0, 1}});
  Do(FromInstance{Answer(run, EventKind::kGenerationDone)});
  EXPECT_EQ(Terminal()->outcome, Outcome::kOk) << "the first terminal state wins";
  Do(FromInstance{Answer(run, EventKind::kCancelled)});
  EXPECT_FALSE(Terminal());
  EXPECT_EQ(Dropped(Drop::kTerminalPending), 1u);
}

TEST_F(LedgerTest, CancelOfAJobReachesWhatRunsAndWhatIsStillUnread) {
  Submitted mine = Submit("a", 10);
  mine.request.job = "j";
  Do(mine);
  Do(Submit("b", 11));
  Do(GroupCancelAsked{"t", "j", 5'000, {"ctl", 0, 1}});
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->id.request_id, "a");
  Submitted unread = Submit("c", 12);
  unread.request.job = "j";
  unread.timestamp_ms = 4'999;
  Do(unread);
  EXPECT_EQ(Terminal()->outcome, Outcome::kCancelled);
  Submitted later = Submit("d", 13);
  later.request.job = "j";
  later.timestamp_ms = 5'001;
  Do(later);
  EXPECT_FALSE(Terminal()) << "submitted after the cancel: a new life of the job";
}

// ------------------------------------------------------------------ scenarios 17, 19, 32:
// instances

TEST_F(LedgerTest, DrainedInstanceCostsNoAttemptsCount) {
  Do(Submit("a", 10));
  Assign("a", Phase::kFull, Instance("m", 1));
  Do(InstanceGone{"m", InstanceEpoch(1), false, {{"t", "a"}}});
  const wire::LedgerRequest& record = ledger_.Find({"t", "a"})->record;
  EXPECT_EQ(record.state, RequestState::kReceived);
  EXPECT_EQ(record.attempt, Attempt(2));
  EXPECT_EQ(record.deaths, 0u);
  EXPECT_EQ(record.failures, 0u);
  EXPECT_FALSE(record.alone);
}

TEST_F(LedgerTest, DeathCountsOnlyForTheRunningStep) {
  Do(Submit("a", 10));
  Do(Submit("b", 11));
  Assign("a", Phase::kFull, Instance("m", 1));
  Assign("b", Phase::kFull, Instance("m", 1));
  Do(InstanceGone{"m", InstanceEpoch(1), true, {{"t", "a"}}});
  EXPECT_TRUE(ledger_.Find({"t", "a"})->record.alone);
  EXPECT_FALSE(ledger_.Find({"t", "b"})->record.alone);
}

TEST_F(LedgerTest, SecondDeathAloneGoesToTheDeadLettersWithATerminalRecord) {
  Do(Submit("a", 10));
  Assign("a", Phase::kFull, Instance("m", 1));
  Do(InstanceGone{"m", InstanceEpoch(1), true, {{"t", "a"}}});
  EXPECT_FALSE(Terminal());
  Assign("a", Phase::kFull, Instance("n", 2));
  Do(InstanceGone{"n", InstanceEpoch(2), true, {{"t", "a"}}});
  ASSERT_EQ(Only<WriteDeadLetter>(last_).size(), 1u);
  EXPECT_EQ(Only<WriteDeadLetter>(last_)[0].stage, "quarantine");
  EXPECT_EQ(Only<WriteDeadLetter>(last_)[0].request.prompt_text, "hello");
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kDead);
  EXPECT_EQ(ledger_.stats().quarantined, 1u);
}

TEST_F(LedgerTest, ContextInstanceThatDiesInTheHandOffMeansANewAttempt) {
  Do(Submit("a", 10));
  ToHandoff("a");
  Do(InstanceGone{"c", InstanceEpoch(1), true, {{"t", "a"}}});
  EXPECT_EQ(State("a"), RequestState::kReceived);
  EXPECT_EQ(ledger_.Find({"t", "a"})->record.deaths, 0u) << "a hand-off waits in no step";
}

TEST_F(LedgerTest, ContextInstanceThatDiesDuringGenerationChangesNothing) {
  Do(Submit("a", 10));
  const wire::Assignment run = ToGeneration("a");
  Do(InstanceGone{"c", InstanceEpoch(1), true, {}});
  EXPECT_EQ(State("a"), RequestState::kGeneration);
  Do(FromInstance{Answer(run, EventKind::kGenerationDone)});
  EXPECT_EQ(Terminal()->outcome, Outcome::kOk);
}

TEST_F(LedgerTest, GenerationInstanceThatDiesMeansANewAttemptAndALateEventIsDropped) {
  Do(Submit("a", 10));
  const wire::Assignment run = ToGeneration("a");
  Do(InstanceGone{"g", InstanceEpoch(2), true, {{"t", "a"}}});
  EXPECT_EQ(Told(AssignmentKind::kReleaseHandoff), std::vector<std::string>{"c"});
  EXPECT_EQ(State("a"), RequestState::kReceived);
  Do(FromInstance{Answer(run, EventKind::kGenerationDone)});
  EXPECT_FALSE(Terminal());
  EXPECT_EQ(Dropped(Drop::kAttempt), 1u);
}

TEST_F(LedgerTest, EachPartOfAStaleAddressIsDroppedAndCounted) {
  Do(Submit("a", 10));
  const wire::Assignment run = Assign("a", Phase::kFull, Instance("m", 1));
  const wire::Event good = Answer(run, EventKind::kGenerationDone);
  const auto reject = [&](Drop reason, auto change) {
    wire::Event bad = good;
    change(bad);
    const uint64_t before = Dropped(reason);
    Do(FromInstance{bad});
    EXPECT_TRUE(last_.empty()) << DropName(reason);
    EXPECT_EQ(Dropped(reason), before + 1) << DropName(reason);
  };
  reject(Drop::kUnknownRequest, [](wire::Event& e) { e.from.id.request_id = "z"; });
  reject(Drop::kAttempt, [](wire::Event& e) { e.from.attempt = Attempt(2); });
  reject(Drop::kControllerEpoch,
         [](wire::Event& e) { e.from.controller_epoch = ControllerEpoch(2); });
  reject(Drop::kInstance, [](wire::Event& e) { e.from.instance = "n"; });
  reject(Drop::kInstanceEpoch, [](wire::Event& e) { e.from.instance_epoch = InstanceEpoch(0); });
  reject(Drop::kLease, [](wire::Event& e) { e.from.lease = LeaseNumber(1); });
  reject(Drop::kPhase, [](wire::Event& e) { e.phase = Phase::kGeneration; });
  Do(FromInstance{good});
  EXPECT_TRUE(Terminal());
}

// ------------------------------------------------------------------ results, memory, recovery

TEST_F(LedgerTest, ResultTooLargeIsReplacedOnceByASmallErrorRecord) {
  Do(Submit("a", 10));
  const wire::Assignment run = Assign("a", Phase::kFull, Instance("m", 1));
  Do(FromInstance{Answer(run, EventKind::kGenerationDone)});
  Do(TerminalRefused{{"t", "a"}, InvalidArgumentError("record of 9 MiB")});
  ASSERT_TRUE(Terminal());
  EXPECT_EQ(Terminal()->outcome, Outcome::kError);
  EXPECT_TRUE(Terminal()->output.tokens.empty());
  Do(TerminalRefused{{"t", "a"}, InvalidArgumentError("no rights")});
  EXPECT_TRUE(last_.empty());
  now_ += 1'000;
  Do(Tick{});
  EXPECT_TRUE(Terminal()) << "again, on time";
  Do(TerminalPublished{{"t", "a"}, 0, 1});
  EXPECT_EQ(Only<WriteRecord>(last_)[0].record.outcome, Outcome::kError);
}

TEST_F(LedgerTest, FinishedRequestIsForgottenAfterTheWindowAndBelowTheStoredPosition) {
  Do(Submit("a", 10));
  Do(CancelAsked{{"t", "a"}, {"ctl", 0, 1}});
  Do(TerminalPublished{{"t", "a"}, 0, 1});
  now_ += Limits{}.dedupe_window_ms;
  Do(Tick{});
  EXPECT_TRUE(Only<WriteTombstone>(last_).empty()) << "its intake record could be read again";
  ledger_.PositionStored("in", 0, 11);
  Do(Tick{});
  EXPECT_EQ(Only<WriteTombstone>(last_).size(), 1u);
  EXPECT_EQ(ledger_.done_count(), 0u);
}

TEST_F(LedgerTest, ClassesShareByAgeing) {
  Submitted batch = Submit("batch", 1);
  batch.request.priority = wire::Priority::kBatch;
  Do(batch);
  now_ += 9'000;
  Submitted high = Submit("early", 2);
  high.request.priority = wire::Priority::kHigh;
  Do(high);
  now_ += 2'000;
  high = Submit("late", 3);
  high.request.priority = wire::Priority::kHigh;
  Do(high);
  std::vector<std::string> order;
  ledger_.VisitReady(Need::kFirstPhase, [&order](const Entry& entry) {
    order.push_back(entry.record.request.id.request_id);
    return true;
  });
  EXPECT_EQ(order, (std::vector<std::string>{"early", "batch", "late"}));
}

TEST_F(LedgerTest, ResumeSendsRunningWorkAgainUnderTheNewEpoch) {
  Do(Submit("a", 10));
  const wire::Assignment old = Assign("a", Phase::kFull, Instance("m", 1));
  Ledger next(Limits{}, ControllerEpoch(0));
  next.Restore(ledger_.Find({"t", "a"})->record);
  const Effects effects = next.Resume(ControllerEpoch(4), now_);
  const auto sent = Only<SendAssignment>(effects);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].assignment.to.controller_epoch, ControllerEpoch(4));
  EXPECT_EQ(sent[0].assignment.to.attempt, old.to.attempt) << "answered with its latest event";
  EXPECT_TRUE(next.Apply(FromInstance{Answer(old, EventKind::kGenerationDone)}, now_).empty())
      << "an event of the old epoch";
  EXPECT_EQ(
      Only<PublishTerminal>(
          next.Apply(FromInstance{Answer(sent[0].assignment, EventKind::kGenerationDone)}, now_))
          .size(),
      1u);
}

TEST_F(LedgerTest, ResultFoundAfterARestartIsNotPublishedAgain) {
  Do(Submit("a", 10));
  const wire::Assignment run = Assign("a", Phase::kFull, Instance("m", 1));
  const wire::LedgerRequest stored = ledger_.Find({"t", "a"})->record;
  Do(FromInstance{Answer(run, EventKind::kGenerationDone)});
  const wire::ResultRecord published = *Terminal();
  Ledger next(Limits{}, ControllerEpoch(0));
  next.Restore(stored);
  const Effects seen = next.TerminalSeen(published, 3, 30, now_);
  ASSERT_EQ(Only<WriteRecord>(seen).size(), 1u);
  EXPECT_EQ(Only<WriteRecord>(seen)[0].record.state, RequestState::kDone);
  EXPECT_TRUE(next.Resume(ControllerEpoch(4), now_).empty());
}

TEST_F(LedgerTest, CancelOfAJobThatARestartInterruptedIsFinished) {
  Submitted mine = Submit("a", 10);
  mine.request.job = "j";
  Do(mine);
  const wire::LedgerRequest stored = ledger_.Find({"t", "a"})->record;
  Do(GroupCancelAsked{"t", "j", now_, {"ctl", 0, 1}});
  Ledger next(Limits{}, ControllerEpoch(0));
  next.Restore(stored);
  next.Restore(Only<WriteRecord>(last_)[0].record);  // the mark alone was written
  const Effects effects = next.Resume(ControllerEpoch(4), now_ + 50);
  ASSERT_EQ(Only<PublishTerminal>(effects).size(), 1u);
  EXPECT_EQ(Only<PublishTerminal>(effects)[0].record.outcome, Outcome::kCancelled);
}

}  // namespace
}  // namespace baton::ledger
