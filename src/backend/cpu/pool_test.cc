#include "src/backend/cpu/pool.h"

#include <gtest/gtest.h>
#include <time.h>

#include <memory>

namespace baton::backend::cpu {
namespace {

TEST(PoolTest, RunsEveryUnitOnce) {
  for (const uint32_t threads : {1U, 2U, 5U}) {
    Pool pool(threads);
    for (uint32_t units = 0; units < 300; ++units) {
      std::vector<int> runs(units);
      std::atomic<uint32_t> most{0};
      pool.For(units, [&](uint32_t unit, uint32_t thread) {
        ++runs[unit];
        uint32_t seen = most.load();
        while (thread > seen && !most.compare_exchange_weak(seen, thread)) {
        }
      });
      for (const int count : runs) ASSERT_EQ(count, 1);
      ASSERT_LT(most.load(), threads);
    }
  }
}

TEST(PoolTest, WhatAUnitWroteIsSeenByTheOwnerAndByTheNextLoop) {
  Pool pool(3);
  std::vector<uint64_t> values(64, 0);
  for (int round = 0; round < 2000; ++round) {
    pool.For(64, [&](uint32_t unit, uint32_t) { values[unit] += values[(unit + 0) % 64] + 1; });
    for (uint64_t& value : values) value %= 1000;
  }
  for (const uint64_t value : values) EXPECT_EQ(value, values[0]);
}

TEST(PoolTest, SleepsWhenIdle) {
  Pool pool(4);
  pool.For(64, [](uint32_t, uint32_t) {});
  // Idle workers must not consume processor time: over a while of this thread's own spinning, the
  // process uses about one thread's time, not four.
  const auto now = [](clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double own = now(CLOCK_THREAD_CPUTIME_ID);
  const double all = now(CLOCK_PROCESS_CPUTIME_ID);
  while (now(CLOCK_THREAD_CPUTIME_ID) - own < 0.1) {
  }
  const double spent = now(CLOCK_PROCESS_CPUTIME_ID) - all;
  EXPECT_LT(spent, 0.15);
}

TEST(PoolTest, EndsWhileWorkersSleepOrSpin) {
  for (int round = 0; round < 200; ++round) {
    auto pool = std::make_unique<Pool>(3);
    if (round % 2 == 0) pool->For(8, [](uint32_t, uint32_t) {});
  }
}

}  // namespace
}  // namespace baton::backend::cpu
