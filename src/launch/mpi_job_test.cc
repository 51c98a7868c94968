#include "src/launch/mpi_job.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "src/launch/testing/probe.h"

namespace baton::launch {
namespace {

using std::chrono::seconds;
using testing::Alive;
using testing::Eventually;
using testing::FilesBelow;

std::string Helper() { return testing::Runfile("src/launch/testing/rank_helper"); }

class MpiJobTest : public ::testing::Test {
 protected:
  std::unique_ptr<MpiJob> Start(std::vector<std::string> arguments, uint32_t ranks = 2) {
    std::vector<std::string> argv = {Helper()};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    auto job = MpiJob::Start({"job-" + arguments[0], ranks, argv, {}, {}});
    EXPECT_TRUE(job.ok()) << job.status().ToString();
    return job.ok() ? std::move(job).value() : nullptr;
  }

  std::vector<pid_t> PidsOf(MpiJob* job) {
    auto pids = job->RankPids(seconds(30));
    EXPECT_TRUE(pids.ok()) << pids.status().ToString();
    return pids.ok() ? *pids : std::vector<pid_t>();
  }

  void ExpectNothingLeft(const std::vector<pid_t>& pids) {
    for (const pid_t pid : pids) EXPECT_FALSE(Alive(pid)) << "pid " << pid;
    EXPECT_EQ(FilesBelow(tmp_.path()), std::vector<std::string>());
  }

  testing::ShortTmpdir tmp_;
};

TEST_F(MpiJobTest, RanksExchangeMessagesAndTheJobEndsWithZero) {
  auto job = Start({"exchange"}, 3);
  const auto code = job->Wait(seconds(30));
  ASSERT_TRUE(code.ok()) << code.status().ToString();
  EXPECT_EQ(*code, 0);
  ExpectNothingLeft({});
}

TEST_F(MpiJobTest, TheExitCodeOfAFailedRankIsTheJobs) {
  auto job = Start({"exit", "1", "41"});
  const auto code = job->Wait(seconds(30));
  ASSERT_TRUE(code.ok()) << code.status().ToString();
  EXPECT_EQ(*code, 41);
  EXPECT_EQ(job->Poll(), 41);
  ExpectNothingLeft({});
}

TEST_F(MpiJobTest, AKilledRankEndsTheJobWith137) {
  auto job = Start({"wait"});
  const auto pids = PidsOf(job.get());
  ASSERT_EQ(pids.size(), 2U);
  EXPECT_EQ(job->Poll(), std::nullopt);
  ASSERT_EQ(kill(pids[1], SIGKILL), 0);
  const auto code = job->Wait(seconds(30));
  ASSERT_TRUE(code.ok()) << code.status().ToString();
  EXPECT_EQ(*code, 128 + SIGKILL);
  ExpectNothingLeft(pids);
}

TEST_F(MpiJobTest, StopLetsRanksFinishInOrder) {
  auto job = Start({"wait"});
  const auto pids = PidsOf(job.get());
  job->Stop(seconds(20));
  EXPECT_EQ(job->Poll(), 0);  // 143 would say that mpirun or a rank died of SIGTERM
  ExpectNothingLeft(pids);
}

TEST_F(MpiJobTest, StopKillsRanksThatIgnoreTermOnceTheGraceIsOver) {
  auto job = Start({"deaf"});
  const auto pids = PidsOf(job.get());
  job->Stop(std::chrono::milliseconds(200));
  EXPECT_TRUE(job->Poll().has_value());
  EXPECT_FALSE(Alive(job->pid()));
  ExpectNothingLeft(pids);
}

TEST_F(MpiJobTest, StopEndsAStoppedRankWhichMpirunNeverNotices) {
  auto job = Start({"deaf"});
  const auto pids = PidsOf(job.get());
  ASSERT_EQ(pids.size(), 2U);
  ASSERT_EQ(kill(pids[0], SIGSTOP), 0);
  EXPECT_EQ(job->Poll(), std::nullopt);
  job->Stop(std::chrono::milliseconds(200));
  EXPECT_TRUE(job->Poll().has_value());
  ExpectNothingLeft(pids);
}

TEST_F(MpiJobTest, AKilledMpirunTakesItsRanksAlongEvenStoppedOnes) {
  auto job = Start({"deaf"});
  const auto pids = PidsOf(job.get());
  ASSERT_EQ(pids.size(), 2U);
  ASSERT_EQ(kill(pids[1], SIGSTOP), 0);
  ASSERT_EQ(kill(job->pid(), SIGKILL), 0);
  const auto code = job->Wait(seconds(10));
  ASSERT_TRUE(code.ok()) << code.status().ToString();
  EXPECT_EQ(*code, 128 + SIGKILL);
  ExpectNothingLeft(pids);
}

TEST_F(MpiJobTest, DestructionStopsTheJob) {
  auto job = Start({"wait"});
  const auto pids = PidsOf(job.get());
  job.reset();
  ExpectNothingLeft(pids);
}

TEST_F(MpiJobTest, SharedSegmentsLieInTheJobsOwnFolder) {
  auto job = Start({"wait"});
  PidsOf(job.get());
  EXPECT_TRUE(Eventually(seconds(20), [&] {
    const auto files = FilesBelow(tmp_.path());
    return std::any_of(files.begin(), files.end(), [](const std::string& file) {
      return file.find("vader_segment") != std::string::npos;
    });
  }));
}

// Starts `rank_helper launch` with a pipe as its stdout.
struct KilledLauncher {
  pid_t pid = -1;
  std::vector<pid_t> job;  // mpirun and the ranks
};
KilledLauncher StartLauncher() {
  std::array<int, 2> fds{};
  EXPECT_EQ(pipe2(fds.data(), O_CLOEXEC), 0);
  const std::string helper = Helper();
  KilledLauncher launcher;
  launcher.pid = fork();
  if (launcher.pid == 0) {
    dup2(fds[1], STDOUT_FILENO);
    execl(helper.c_str(), helper.c_str(), "launch", nullptr);
    _exit(127);
  }
  close(fds[1]);
  FILE* output = fdopen(fds[0], "r");
  std::array<int, 3> pids{-1, -1, -1};
  EXPECT_EQ(fscanf(output, "%d %d %d", pids.data(), &pids[1], &pids[2]), 3);
  EXPECT_EQ(fgetc(output), '\n');
  // Neither mpirun nor a rank holds the launcher's stdout: it ends with the launcher.
  launcher.job.assign(pids.begin(), pids.end());
  kill(launcher.pid, SIGKILL);
  waitpid(launcher.pid, nullptr, 0);
  EXPECT_EQ(fgetc(output), EOF);
  fclose(output);
  return launcher;
}

TEST_F(MpiJobTest, ALauncherKilledWithSigkillLeavesNoProcessAndNoFile) {
  const KilledLauncher launcher = StartLauncher();
  EXPECT_TRUE(Eventually(seconds(10), [&] {
    return std::none_of(launcher.job.begin(), launcher.job.end(), Alive) &&
           FilesBelow(tmp_.path()).empty();
  }));
  ExpectNothingLeft(launcher.job);
}

TEST_F(MpiJobTest, RankPidsNamesTheRankThatIsMissing) {
  auto started = MpiJob::Start({"no-mpi", 1, {"/bin/sleep", "30"}, {}, {}});
  ASSERT_TRUE(started.ok());
  const auto pids = (*started)->RankPids(std::chrono::milliseconds(300));
  ASSERT_FALSE(pids.ok());
  EXPECT_EQ(pids.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(pids.status().message().find("rank 0 of 1"), std::string::npos);
}

TEST_F(MpiJobTest, OutputOfRanksGoesToStderrOnly) {
  // This test's own stdout and stderr become files for the time of the job.
  const std::string out = tmp_.path() + ".out";
  const std::string err = tmp_.path() + ".err";
  fflush(stdout);
  const int old_out = dup(STDOUT_FILENO);
  const int old_err = dup(STDERR_FILENO);
  const int out_fd = open(out.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  const int err_fd = open(err.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  dup2(out_fd, STDOUT_FILENO);
  dup2(err_fd, STDERR_FILENO);
  auto job = Start({"print"});
  const auto code = job->Wait(seconds(30));
  fflush(stdout);
  dup2(old_out, STDOUT_FILENO);
  dup2(old_err, STDERR_FILENO);
  for (const int fd : {old_out, old_err, out_fd, err_fd}) close(fd);
  ASSERT_TRUE(code.ok());
  std::stringstream out_text;
  out_text << std::ifstream(out).rdbuf();
  std::stringstream err_text;
  err_text << std::ifstream(err).rdbuf();
  EXPECT_EQ(out_text.str(), "");
  EXPECT_NE(err_text.str().find("line of rank 0"), std::string::npos) << err_text.str();
  EXPECT_NE(err_text.str().find("line of rank 1"), std::string::npos) << err_text.str();
  unlink(out.c_str());
  unlink(err.c_str());
}

TEST_F(MpiJobTest, FilesOfTheJobArePrivateAndGoWithIt) {
  MpiJobSpec spec{"files", 1, {Helper(), "wait"}, {}, {}};
  spec.files = {{"config.toml", "secret = 1"}};
  auto job = MpiJob::Start(spec);
  ASSERT_TRUE(job.ok());
  PidsOf(job->get());
  const auto files = FilesBelow(tmp_.path());
  const auto file = std::find_if(files.begin(), files.end(), [](const std::string& path) {
    return path.ends_with("/config.toml");
  });
  ASSERT_NE(file, files.end());
  struct stat info {};
  ASSERT_EQ(stat(file->c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  (*job)->Stop(seconds(10));
  ExpectNothingLeft({});
}

TEST_F(MpiJobTest, BadSpecsAreRefusedWithTheirReason) {
  EXPECT_EQ(MpiJob::Start({"empty", 1, {}, {}, {}}).status().code(), StatusCode::kInvalidArgument);
  const auto none = MpiJob::Start({"none", 0, {"/bin/true"}, {}, {}});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("1 to 1024"), std::string::npos);
  EXPECT_EQ(FilesBelow(tmp_.path()), std::vector<std::string>());
}

TEST_F(MpiJobTest, AProgramThatIsMissingFailsTheJob) {
  auto job = MpiJob::Start({"missing", 1, {"/nonexistent/program"}, {}, {}});
  ASSERT_TRUE(job.ok());
  const auto code = (*job)->Wait(seconds(30));
  ASSERT_TRUE(code.ok());
  EXPECT_NE(*code, 0);
}

}  // namespace
}  // namespace baton::launch
