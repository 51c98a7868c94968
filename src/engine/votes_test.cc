#include "src/engine/votes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/base/rng.h"

namespace baton::engine {
namespace {

constexpr Nanos kDeadline = std::chrono::seconds(5);
constexpr AdmissionId kOne(1);
constexpr AdmissionId kTwo(2);

Vote MakeVote(uint32_t rank, AdmissionId admission, VoteKind kind = VoteKind::kReleased,
              Status status = {}) {
  return {Rank(rank), admission, kind, std::move(status)};
}

TEST(Votes, CommitsWhenTheLastRankHasVoted) {
  VoteTable table(3, kDeadline);
  table.Open(kOne, VoteKind::kReleased, "request 1");
  table.Cast(MakeVote(2, kOne));
  table.Cast(MakeVote(0, kOne));
  EXPECT_TRUE(table.TakeCommits().empty());
  table.Cast(MakeVote(1, kOne));
  const auto commits = table.TakeCommits();
  ASSERT_EQ(commits.size(), 1u);
  EXPECT_EQ(commits[0].admission, kOne);
  EXPECT_TRUE(commits[0].status.ok());
  EXPECT_EQ(table.size(), 0u);
  EXPECT_TRUE(table.TakeCommits().empty());
}

TEST(Votes, ASecondVoteOfARankCountsForNothing) {
  VoteTable table(2, kDeadline);
  table.Open(kOne, VoteKind::kReleased, "request 1");
  table.Cast(MakeVote(0, kOne));
  table.Cast(MakeVote(0, kOne));
  EXPECT_TRUE(table.TakeCommits().empty());
  EXPECT_EQ(table.dropped(), 1u);
}

TEST(Votes, AFailureWinsAtOnceAndNamesItsRank) {
  VoteTable table(3, kDeadline);
  table.Open(kOne, VoteKind::kReceived, "request 1");
  table.Cast(MakeVote(0, kOne, VoteKind::kReceived));
  table.Cast(MakeVote(2, kOne, VoteKind::kReceived, DataLossError("a byte flipped")));
  table.Cast(MakeVote(1, kOne, VoteKind::kReceived));
  const auto commits = table.TakeCommits();
  ASSERT_EQ(commits.size(), 1u);
  EXPECT_EQ(commits[0].status.ToString(), "DATA_LOSS: rank 2: a byte flipped");
  EXPECT_EQ(table.dropped(), 1u);
}

TEST(Votes, StrangeVotesAreDroppedAndCounted) {
  VoteTable table(2, kDeadline);
  table.Open(kOne, VoteKind::kReleased, "request 1");
  table.Cast(MakeVote(0, kTwo));                       // never opened
  table.Cast(MakeVote(0, kOne, VoteKind::kReceived));  // another kind
  table.Cast(MakeVote(7, kOne));                       // no such rank
  table.Close(kOne, VoteKind::kReleased);
  table.Cast(MakeVote(0, kOne));
  EXPECT_EQ(table.dropped(), 4u);
  EXPECT_TRUE(table.TakeCommits().empty());
}

TEST(Votes, KindsOfOneAdmissionAreIndependent) {
  VoteTable table(1, kDeadline);
  table.Open(kOne, VoteKind::kOffered, "request 1");
  table.Open(kOne, VoteKind::kReleased, "request 1");
  table.Cast(MakeVote(0, kOne, VoteKind::kOffered));
  ASSERT_EQ(table.TakeCommits().size(), 1u);
  EXPECT_TRUE(table.open(kOne, VoteKind::kReleased));
}

TEST(Votes, LatenessNamesTheRanksOnceAndIsLostAtTwiceTheDeadline) {
  VoteTable table(3, kDeadline);
  const MonoTime start{0};
  table.Open(kOne, VoteKind::kReleased, "request 1");
  EXPECT_TRUE(table.TakeLate(start + 10 * kDeadline).empty());  // not armed: nothing is due
  table.Arm(kOne, VoteKind::kReleased, start);
  table.Arm(kOne, VoteKind::kReleased, start + kDeadline);  // changes nothing
  table.Cast(MakeVote(1, kOne));
  EXPECT_TRUE(table.TakeLate(start + (kDeadline - Nanos(1))).empty());
  auto late = table.TakeLate(start + kDeadline);
  ASSERT_EQ(late.size(), 2u);
  EXPECT_EQ(late[0].rank, Rank(0));
  EXPECT_EQ(late[1].rank, Rank(2));
  EXPECT_EQ(late[0].request, "request 1");
  EXPECT_EQ(late[0].age, kDeadline);
  EXPECT_FALSE(late[0].lost);
  EXPECT_TRUE(table.TakeLate(start + kDeadline + Nanos(1)).empty());  // said once
  table.Cast(MakeVote(0, kOne));
  late = table.TakeLate(start + 2 * kDeadline);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].rank, Rank(2));
  EXPECT_TRUE(late[0].lost);
  EXPECT_TRUE(table.TakeLate(start + 9 * kDeadline).empty());
}

TEST(Votes, EveryOrderOfVotesCommitsEachAdmissionOnce) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    const auto ranks = static_cast<uint32_t>(1 + rng.Below(8));
    const uint64_t admissions = 1 + rng.Below(20);
    VoteTable table(ranks, kDeadline);
    std::vector<Vote> votes;
    for (uint64_t id = 1; id <= admissions; ++id) {
      table.Open(AdmissionId(id), VoteKind::kReleased, "request");
      for (uint32_t rank = 0; rank < ranks; ++rank)
        votes.push_back(MakeVote(rank, AdmissionId(id)));
    }
    for (size_t i = votes.size(); i > 1; --i) std::swap(votes[i - 1], votes[rng.Below(i)]);
    std::vector<uint64_t> committed;
    std::vector<uint32_t> cast(admissions + 1);
    for (const Vote& vote : votes) {
      table.Cast(vote);
      ++cast[vote.admission.value];
      for (const Commit& commit : table.TakeCommits()) {
        EXPECT_EQ(cast[commit.admission.value], ranks);  // not one vote earlier
        committed.push_back(commit.admission.value);
      }
    }
    std::sort(committed.begin(), committed.end());
    ASSERT_EQ(committed.size(), admissions);
    for (uint64_t id = 1; id <= admissions; ++id) EXPECT_EQ(committed[id - 1], id);
    EXPECT_EQ(table.size(), 0u);
  }
}

}  // namespace
}  // namespace baton::engine
