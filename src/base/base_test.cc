#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "src/base/clock.h"
#include "src/base/fault.h"
#include "src/base/ids.h"
#include "src/base/queue.h"
#include "src/base/result.h"
#include "src/base/rng.h"
#include "src/base/status.h"

namespace baton {
namespace {

Result<int> Half(int x) {
  if (x % 2 != 0) return InvalidArgumentError("odd");
  return x / 2;
}

Status Quarter(int x, int* out) {
  ASSIGN_OR_RETURN(const int half, Half(x));
  ASSIGN_OR_RETURN(*out, Half(half));
  return OkStatus();
}

TEST(Status, KeepsItsCodeWhenContextIsAdded) {
  const Status status = UnavailableError("broker away").WithContext("start");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.ToString(), "UNAVAILABLE: start: broker away");
  EXPECT_TRUE(OkStatus().WithContext("start").ok());
}

TEST(Status, NamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(StatusCode::kInternal); ++i) {
    const auto code = static_cast<StatusCode>(i);
    EXPECT_EQ(StatusCodeFromName(StatusCodeName(code)), code);
  }
}

TEST(Result, CarriesTheFirstErrorUp) {
  int out = 0;
  EXPECT_TRUE(Quarter(8, &out).ok());
  EXPECT_EQ(out, 2);
  EXPECT_EQ(Quarter(6, &out).message(), "odd");
}

TEST(Identity, KeysOfDifferentIdentitiesNeverMeet) {
  const Identity a{"a/b", "c"};
  const Identity b{"a", "b/c"};
  EXPECT_NE(a.Key(), b.Key());
  for (const Identity& identity : {a, b, Identity{"%2F", "/%25"}, Identity{"", ""}}) {
    Identity back;
    ASSERT_TRUE(Identity::FromKey(identity.Key(), &back));
    EXPECT_EQ(back, identity);
  }
  Identity ignored;
  EXPECT_FALSE(Identity::FromKey("no-slash", &ignored));
  EXPECT_FALSE(Identity::FromKey("a/b/c", &ignored));
  EXPECT_FALSE(Identity::FromKey("a/%zz", &ignored));
}

TEST(Rng, RepeatsForASeedAndStaysBelowTheBound) {
  Rng a(7);
  Rng b(7);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t x = a.Below(10);
    EXPECT_EQ(x, b.Below(10));
    EXPECT_LT(x, 10U);
    seen.insert(x);
  }
  EXPECT_EQ(seen.size(), 10U);
}

TEST(BoundedQueue, RefusesWhenFullAndDrainsAfterClose) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_TRUE(queue.TryPush(2));
  EXPECT_FALSE(queue.TryPush(3));
  queue.Close();
  EXPECT_EQ(queue.Pop(Nanos::zero()), 1);
  EXPECT_EQ(queue.Pop(Nanos::zero()), 2);
  EXPECT_EQ(queue.Pop(std::chrono::seconds(5)), std::nullopt);
  EXPECT_FALSE(queue.TryPush(4));
}

TEST(BoundedQueue, PassesEverythingInOrderBetweenThreads) {
  BoundedQueue<int> queue(4);
  std::thread producer([&] {
    for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(queue.Push(int{i}, std::chrono::seconds(30)));
    queue.Close();
  });
  int expected = 0;
  while (auto item = queue.Pop(std::chrono::seconds(30))) EXPECT_EQ(*item, expected++);
  producer.join();
  EXPECT_EQ(expected, 10'000);
}

TEST(Fault, FiresAtTheNamedHitOnly) {
  ASSERT_TRUE(SetFaultPlan("a.b=fire@2,c=fire").ok());
  EXPECT_FALSE(MAYBE_FAULT("a.b"));
  EXPECT_TRUE(MAYBE_FAULT("a.b"));
  EXPECT_FALSE(MAYBE_FAULT("a.b"));
  EXPECT_TRUE(MAYBE_FAULT("c"));
  EXPECT_FALSE(MAYBE_FAULT("other"));
  EXPECT_EQ(FaultPointHits("a.b"), 3U);
  ASSERT_TRUE(SetFaultPlan("").ok());
  EXPECT_FALSE(MAYBE_FAULT("c"));
  EXPECT_FALSE(SetFaultPlan("x=boom").ok());
  EXPECT_FALSE(SetFaultPlan("x=fire@0").ok());
}

TEST(ManualClock, MovesOnlyWhenTold) {
  ManualClock clock;
  const MonoTime start = clock.Now();
  clock.Advance(Millis(1500));
  EXPECT_EQ(clock.Now() - start, Millis(1500));
  EXPECT_EQ((MonoTime::Max() + Millis(1)), MonoTime::Max());
}

}  // namespace
}  // namespace baton
