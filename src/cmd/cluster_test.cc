// The program as a user runs it, with the real model: a batch job that brings its own cluster, and
// a cluster of single processes.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "src/bus/kafka/embedded.h"
#include "src/cmd/broker.h"
#include "src/cmd/testing/run_baton.h"
#include "src/launch/testing/probe.h"

namespace baton::cmd {
namespace {

using launch::testing::Alive;
using launch::testing::Descendants;
using launch::testing::Eventually;
using std::chrono::seconds;
using testing::Ran;
using testing::Running;

constexpr Nanos kPatience = seconds(200);  // loads the model in two processes, on two shared cores

std::string Program() { return launch::testing::Runfile("src/cmd/baton_unstamped"); }

std::string TempPath(const std::string& name) {
  return std::string(getenv("TEST_TMPDIR")) + "/" + name;
}

std::string ReadFile(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string Line(int number, int max_tokens) {
  return "{\"custom_id\":\"row-" + std::to_string(number) +
         "\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{\"max_tokens\":" +
         std::to_string(max_tokens) + ",\"messages\":[{\"role\":\"user\",\"content\":\"Name " +
         std::to_string(number) + " colours.\"}]}}\n";
}

std::string WriteInput(const std::string& name, int lines, int max_tokens,
                       const std::string& extra = "") {
  std::ofstream file(TempPath(name));
  for (int i = 1; i <= lines; ++i) file << Line(i, max_tokens);
  file << extra;
  return TempPath(name);
}

size_t Lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(BatchCommandTest, RunsAFileThroughItsOwnClusterAndLeavesNothing) {
  const launch::testing::ShortTmpdir tmp;
  const std::string input = WriteInput("few.jsonl", 3, 4, "this is no JSON\n");
  const std::string output = TempPath("few.out.jsonl");
  Running running(Program(), {"batch", "--input", input, "--output", output});
  const pid_t pid = running.pid();
  std::vector<pid_t> below;
  // Its keepers, the controller, two instances, their keepers, mpiruns and ranks.
  EXPECT_TRUE(Eventually(seconds(60), [&] { return Descendants(pid).size() >= 12; }));
  below = Descendants(pid);
  const Ran ran = running.Wait(kPatience);
  EXPECT_EQ(ran.code, 1) << ran.err;  // one line was wrong
  const std::string rows = ReadFile(output);
  EXPECT_EQ(Lines(rows), 3U) << rows << ran.err;
  for (const char* id : {"row-1", "row-2", "row-3"}) {
    EXPECT_NE(rows.find(id), std::string::npos) << id;
  }
  EXPECT_EQ(Lines(ReadFile(TempPath("few.out.errors.jsonl"))), 1U);
  EXPECT_EQ(Lines(ran.out), 1U) << ran.out;  // the summary and nothing else
  EXPECT_TRUE(std::none_of(below.begin(), below.end(), Alive));
  EXPECT_EQ(launch::testing::FilesBelow(tmp.path()), std::vector<std::string>());
}

TEST(BatchCommandTest, AKilledJobLeavesNoProcessAndIsResumed) {
  const launch::testing::ShortTmpdir tmp;
  const std::string input = WriteInput("many.jsonl", 12, 24);
  const std::string output = TempPath("many.out.jsonl");
  const std::vector<std::string> command = {"batch", "--input",  input, "--output",
                                            output,  "--window", "2"};
  std::vector<pid_t> below;
  {
    Running running(Program(), command);
    const pid_t pid = running.pid();
    EXPECT_TRUE(Eventually(kPatience, [&] { return Lines(ReadFile(output)) >= 1; }));
    below = Descendants(pid);
    EXPECT_GE(below.size(), 12U);
  }  // SIGKILL
  EXPECT_TRUE(Eventually(seconds(15), [&] {
    return std::none_of(below.begin(), below.end(), Alive) &&
           launch::testing::FilesBelow(tmp.path()).empty();
  }));
  Running again(Program(), command);
  const Ran ran = again.Wait(kPatience);
  EXPECT_EQ(ran.code, 0) << ran.err;
  const std::string rows = ReadFile(output);
  EXPECT_EQ(Lines(rows), 12U);
  for (int i = 1; i <= 12; ++i) {
    const std::string id = "\"row-" + std::to_string(i) + "\"";
    const size_t first = rows.find(id);
    EXPECT_NE(first, std::string::npos) << id;
    EXPECT_EQ(rows.find(id, first + 1), std::string::npos) << id << " twice";
  }
}

TEST(BatchCommandTest, AModelThatCannotBeLoadedEndsTheJobWithItsReason) {
  const std::string model = TempPath("cut.gguf");
  std::ofstream(model) << "GGUF but not much more than that";
  Running running(Program(), {"batch", "--input", WriteInput("one.jsonl", 1, 4), "--output",
                              TempPath("one.out.jsonl"), "--model", model});
  const Ran ran = running.Wait(kPatience);
  EXPECT_EQ(ran.code, 3) << ran.err;
  EXPECT_NE(ran.err.find(model), std::string::npos) << ran.err;
  EXPECT_EQ(ran.out, "");
}

TEST(BatchCommandTest, AMissingInputIsOneLine) {
  Running running(Program(), {"batch", "--input", "/nonexistent.jsonl", "--output", "/tmp/x"});
  const Ran ran = running.Wait(kPatience);
  EXPECT_EQ(ran.code, 3);
  EXPECT_EQ(Lines(ran.err), 1U);
  EXPECT_NE(ran.err.find("/nonexistent.jsonl"), std::string::npos);
}

TEST(ClusterOfProcessesTest, SubmitStreamsAnAnswerAndSigtermDrains) {
  const launch::testing::ShortTmpdir tmp;
  auto broker = bus::EmbeddedCluster::Start(TopicsOf(config::Config()));
  ASSERT_TRUE(broker.ok()) << broker.status().ToString();
  const std::vector<std::string> bus = {"--bootstrap", (*broker)->bootstrap(), "--embedded",
                                        "true"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), bus.begin(), bus.end());
    return arguments;
  };
  Running controller(Program(), with({"controller"}));
  Running instance(Program(), with({"instance", "--name", "all-0", "--role", "mixed"}));
  Running submit(Program(),
                 with({"submit", "--prompt", "Say hello.", "--stream", "--max-tokens", "8"}));
  const Ran answer = submit.Wait(kPatience);
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_GT(answer.out.size(), 3U) << answer.err;

  for (Running* process : {&instance, &controller}) {
    kill(process->pid(), SIGTERM);
    const Ran ended = process->Wait(seconds(30));
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out, "");
  }
  EXPECT_EQ(launch::testing::FilesBelow(tmp.path()), std::vector<std::string>());
}

}  // namespace
}  // namespace baton::cmd
