#include "src/launch/local_cluster.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "src/launch/testing/probe.h"

namespace baton::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Alive;
using testing::Eventually;

class LocalClusterTest : public ::testing::Test {
 protected:
  LocalClusterSpec Spec(const std::string& what) {
    LocalClusterSpec spec;
    spec.binary = testing::Runfile("src/launch/testing/rank_helper");
    spec.config.bus.bootstrap = "127.0.0.1:1";
    spec.config.bus.kafka["sasl.password"] = "hunter2";
    spec.config.cluster.log_folder = tmp_.path();
    spec.instances = TopologyOf(spec.config.cluster);
    if (!what.empty()) spec.environment = {{"BATON_TEST_INSTANCE", what}};
    return spec;
  }

  std::unique_ptr<LocalCluster> Start(const LocalClusterSpec& spec) {
    auto cluster = LocalCluster::Start(spec);
    EXPECT_TRUE(cluster.ok()) << cluster.status().ToString();
    return cluster.ok() ? std::move(cluster).value() : nullptr;
  }

  static std::vector<pid_t> PidsOf(const LocalCluster& cluster) {
    std::vector<pid_t> pids;
    for (const ProcessInfo& info : cluster.Processes()) pids.push_back(info.pid);
    return pids;
  }

  // The instance's own processes: its keeper, mpirun and two ranks.
  static std::vector<pid_t> TreeOf(pid_t instance) {
    std::vector<pid_t> tree;
    EXPECT_TRUE(Eventually(seconds(20), [&] {
      tree = testing::Descendants(instance);
      return tree.size() >= 4;
    }));
    return tree;
  }

  testing::ShortTmpdir tmp_;
};

TEST_F(LocalClusterTest, StartsTheTopologyAndStopsAllOfIt) {
  auto cluster = Start(Spec(""));
  const auto processes = cluster->Processes();
  ASSERT_EQ(processes.size(), 3U);
  EXPECT_EQ(processes[0].name, "controller-0");
  EXPECT_EQ(processes[1].name, "context-0");
  EXPECT_EQ(processes[2].name, "generation-0");
  const auto pids = PidsOf(*cluster);
  EXPECT_TRUE(std::all_of(pids.begin(), pids.end(), Alive));
  cluster->Stop(seconds(10));
  EXPECT_TRUE(std::none_of(pids.begin(), pids.end(), Alive));
  EXPECT_EQ(cluster->health(), OkStatus());
}

TEST_F(LocalClusterTest, AKilledProcessIsStartedAgain) {
  auto cluster = Start(Spec(""));
  for (const size_t index : {size_t{0}, size_t{1}}) {
    const pid_t before = PidsOf(*cluster)[index];
    ASSERT_EQ(kill(before, SIGKILL), 0);
    EXPECT_TRUE(Eventually(seconds(10), [&] {
      const ProcessInfo now = cluster->Processes()[index];
      return now.restarts == 1 && now.pid > 0 && now.pid != before;
    }));
  }
  EXPECT_EQ(cluster->health(), OkStatus());
}

TEST_F(LocalClusterTest, AnInstanceThatKeepsEndingFailsTheClusterWithItsNameAndLimit) {
  LocalClusterSpec spec = Spec("crash");
  spec.config.cluster.restarts_per_minute = 2;
  auto cluster = Start(spec);
  ASSERT_TRUE(Eventually(seconds(20), [&] { return !cluster->health().ok(); }));
  const std::string message = cluster->health().message();
  EXPECT_NE(message.find("-0 ended with exit code 7 after 2 restarts"), std::string::npos)
      << message;
  EXPECT_NE(message.find("restarts_per_minute = 2"), std::string::npos) << message;
}

TEST_F(LocalClusterTest, AProcessThatWasStartedWronglyIsNotStartedAgain) {
  auto cluster = Start(Spec("usage"));
  ASSERT_TRUE(Eventually(seconds(20), [&] { return !cluster->health().ok(); }));
  EXPECT_EQ(cluster->Processes()[1].restarts, 0U);
}

TEST_F(LocalClusterTest, AFailureShowsTheEndOfTheLog) {
  LocalClusterSpec spec = Spec("usage");
  spec.config.cluster.log_folder = "";
  ::testing::internal::CaptureStderr();
  auto cluster = Start(spec);
  const bool failed = Eventually(seconds(20), [&] { return !cluster->health().ok(); });
  cluster.reset();
  const std::string output = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(failed);
  EXPECT_NE(output.find("| last words of the instance"), std::string::npos) << output;
}

TEST_F(LocalClusterTest, LogsGoToTheFolderOneFileAProcess) {
  auto cluster = Start(Spec("usage"));
  ASSERT_TRUE(Eventually(seconds(20), [&] { return !cluster->health().ok(); }));
  std::ifstream log(tmp_.path() + "/context-0.log");
  std::string line;
  EXPECT_TRUE(std::getline(log, line));
  EXPECT_EQ(line, "first line");
}

TEST_F(LocalClusterTest, AKilledInstanceTakesItsRanksAlongBeforeItIsStartedAgain) {
  auto cluster = Start(Spec("job"));
  const pid_t instance = PidsOf(*cluster)[1];
  const auto tree = TreeOf(instance);
  ASSERT_EQ(kill(instance, SIGKILL), 0);
  EXPECT_TRUE(Eventually(seconds(20), [&] { return cluster->Processes()[1].restarts == 1; }));
  EXPECT_TRUE(std::none_of(tree.begin(), tree.end(), Alive));
  cluster->Stop(seconds(10));
}

TEST_F(LocalClusterTest, StopEndsInstancesThatAreStoppedThemselves) {
  auto cluster = Start(Spec("job"));
  const pid_t instance = PidsOf(*cluster)[2];
  const auto tree = TreeOf(instance);
  ASSERT_EQ(kill(instance, SIGSTOP), 0);
  cluster->Stop(milliseconds(300));
  EXPECT_FALSE(Alive(instance));
  EXPECT_TRUE(std::none_of(tree.begin(), tree.end(), Alive));
}

TEST_F(LocalClusterTest, ChildrenGetTheirSettingsThroughAFileThatOthersCannotRead) {
  auto cluster = Start(Spec(""));
  std::ifstream command("/proc/" + std::to_string(PidsOf(*cluster)[1]) + "/cmdline");
  std::stringstream text;
  text << command.rdbuf();
  EXPECT_EQ(text.str().find("hunter2"), std::string::npos);
  std::string line = text.str();
  const size_t at = line.find("/tmp/baton-");
  ASSERT_NE(at, std::string::npos) << line;
  const std::string path = line.c_str() + at;  // up to the argument's NUL
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  config::Config config;
  ASSERT_EQ(config::ApplyFile(path, &config), OkStatus());
  EXPECT_EQ(config.bus.kafka.at("sasl.password"), "hunter2");
  EXPECT_EQ(config.instance.name, "context-0");
  EXPECT_EQ(config.instance.role, "context");
  cluster->Stop(seconds(10));
  EXPECT_NE(stat(path.c_str(), &info), 0);
}

}  // namespace
}  // namespace baton::launch
