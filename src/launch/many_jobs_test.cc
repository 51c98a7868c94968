// Tests, CI and users run several clusters on one machine at once; their MPI jobs must not meet.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "src/launch/mpi_job.h"
#include "src/launch/testing/probe.h"

namespace baton::launch {
namespace {

TEST(ManyJobsTest, FourJobsAtOnceTwentyTimesWithoutAFailure) {
  const testing::ShortTmpdir tmp;
  const std::string helper = testing::Runfile("src/launch/testing/rank_helper");
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<MpiJob>> jobs;
    for (int i = 0; i < 4; ++i) {
      auto job = MpiJob::Start({"cluster-" + std::to_string(i), 2, {helper, "exchange"}, {}, {}});
      ASSERT_TRUE(job.ok()) << job.status().ToString();
      jobs.push_back(std::move(job).value());
    }
    for (const auto& job : jobs) {
      const auto code = job->Wait(std::chrono::seconds(60));
      ASSERT_TRUE(code.ok()) << "round " << round << ": " << code.status().ToString();
      ASSERT_EQ(*code, 0) << "round " << round;
    }
  }
  EXPECT_EQ(testing::FilesBelow(tmp.path()), std::vector<std::string>());
}

}  // namespace
}  // namespace baton::launch
