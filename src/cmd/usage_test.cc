// What a user meets first: help, and one clear line for what is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "src/cmd/testing/run_baton.h"

namespace baton::cmd {
namespace {

testing::Ran Baton(const std::vector<std::string>& arguments,
                   const std::vector<std::pair<std::string, std::string>>& environment = {}) {
  const std::string program = std::string(getenv("TEST_SRCDIR")) + "/" + getenv("TEST_WORKSPACE") +
                              "/src/cmd/baton_unstamped";
  testing::Running running(program, arguments, environment);
  return running.Wait(std::chrono::seconds(40));
}

std::string TempFile(const std::string& name, const std::string& text) {
  const std::string path = std::string(getenv("TEST_TMPDIR")) + "/" + name;
  std::ofstream(path) << text;
  return path;
}

// Nothing on stdout, one line on stderr that holds all of these.
void ExpectOneLine(const testing::Ran& ran, int code, const std::vector<std::string>& parts) {
  EXPECT_EQ(ran.code, code) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  for (const std::string& part : parts) {
    EXPECT_NE(ran.err.find(part), std::string::npos) << part << " in " << ran.err;
  }
}

const std::vector<std::string> kClusterCommands = {"controller", "instance"};

TEST(UsageTest, HelpNamesEveryCommandAndTheExitCodes) {
  const testing::Ran ran = Baton({"--help"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "");
  for (const char* part : {"instance", "version", "config", "Exit codes"}) {
    EXPECT_NE(ran.out.find(part), std::string::npos) << part;
  }
}

TEST(UsageTest, HelpOfACommandHasExamplesAndDefaults) {
  for (const std::string& command : kClusterCommands) {
    const testing::Ran ran = Baton({command, "--help"});
    EXPECT_EQ(ran.code, 0);
    const std::vector<std::string> parts = {"Example", "baton " + command, "default"};
    for (const std::string& part : parts) {
      EXPECT_NE(ran.out.find(part), std::string::npos) << part << " in help of " << command;
    }
  }
}

TEST(UsageTest, AnUnknownCommandIsNamedWithTheKnownOnes) {
  ExpectOneLine(Baton({"serve"}), 2, {"\"serve\"", "instance"});
  ExpectOneLine(Baton({}), 2, {"--help"});
}

TEST(UsageTest, AnUnknownOptionIsAnsweredWithTheNearestOne) {
  ExpectOneLine(Baton({"instance", "--rolle=context"}), 2, {"--rolle", "did you mean --role?"});
}

TEST(UsageTest, ABadValueNamesItsRange) {
  ExpectOneLine(Baton({"instance", "--role", "boss"}), 2,
                {"--role", "\"boss\"", "one of context, generation, mixed"});
  ExpectOneLine(Baton({"instance", "--threads", "0"}), 2, {"--threads", "1 to 256"});
}

TEST(UsageTest, AMissingBrokerOptionSaysHowToNameIt) {
  for (const std::string& command : kClusterCommands) {
    ExpectOneLine(Baton({command}), 2, {"--bootstrap HOST:PORT"});
  }
}

TEST(UsageTest, ABrokerThatIsAwayIsOneLineWithItsName) {
  for (const std::string& command : kClusterCommands) {
    ExpectOneLine(Baton({command, "--bootstrap", "127.0.0.1:1"}), 3,
                  {"broker 127.0.0.1:1 is away"});
  }
}

TEST(UsageTest, AModelThatIsMissingOrNoModelIsNamed) {
  ExpectOneLine(Baton({"instance", "--bootstrap", "127.0.0.1:1", "--model", "/nonexistent.gguf"}),
                3, {"/nonexistent.gguf", "--model"});
  const std::string text = TempFile("text.gguf", "this is no model");
  ExpectOneLine(Baton({"instance", "--bootstrap", "127.0.0.1:1", "--model", text}), 2,
                {text, "is not a model"});
  ExpectOneLine(Baton({"instance", "--bootstrap", "127.0.0.1:1", "--model", "/tmp"}), 2,
                {"is a folder"});
}

TEST(UsageTest, RelativePathsAreMeantFromTheUsersFolder) {
  TempFile("relative.gguf", "no model");
  const std::string folder = getenv("TEST_TMPDIR");
  ExpectOneLine(Baton({"instance", "--bootstrap", "127.0.0.1:1", "--model", "relative.gguf"},
                      {{"BUILD_WORKING_DIRECTORY", folder}}),
                2, {folder + "/relative.gguf", "is not a model"});
}

TEST(UsageTest, AConfigurationFileIsCheckedAndPrintedWithoutSecrets) {
  const std::string good =
      TempFile("good.toml", "[engine]\nrunning_max = 8\n[kafka]\n'sasl.password' = 'hunter2'\n");
  const testing::Ran ran = Baton({"config", "--config", good});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("engine.running_max = 8"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("hunter2"), std::string::npos);

  const std::string bad = TempFile("bad.toml", "[engine]\nruning_max = 8\n");
  ExpectOneLine(Baton({"config", "--config", bad}), 2,
                {"line 2", "did you mean \"engine.running_max\""});
  ExpectOneLine(Baton({"config", "--config", "/nonexistent.toml"}), 3, {"/nonexistent.toml"});
}

TEST(UsageTest, AllOptionsAreExplainedOnStdout) {
  const testing::Ran ran = Baton({"config"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.out.find("engine.step_tokens_max"), std::string::npos);
}

TEST(UsageTest, ABadKafkaSettingIsNamedAndItsValueIsNot) {
  ExpectOneLine(Baton({"instance", "--bootstrap", "127.0.0.1:1", "--kafka", "no.such=hunter2"}), 2,
                {"no.such"});
  const testing::Ran ran = Baton({"instance", "--bootstrap", "127.0.0.1:1", "--kafka", "hunter2"});
  ExpectOneLine(ran, 2, {"key=value"});
  EXPECT_EQ(ran.err.find("hunter2"), std::string::npos);
}

TEST(UsageTest, VersionNamesTheLibraries) {
  const testing::Ran ran = Baton({"version"});
  EXPECT_EQ(ran.code, 0);
  for (const char* part : {"baton 0.1.0", "librdkafka 2", "Open MPI"}) {
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << " in " << ran.out;
  }
}

}  // namespace
}  // namespace baton::cmd
