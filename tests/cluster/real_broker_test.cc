// The README's second section: a real Kafka broker, a controller and instances started by hand, and
// the same batch through them as through the embedded cluster, with the same answers.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "src/cmd/testing/run_baton.h"
#include "tests/cluster/cluster.h"

namespace baton::cluster {
namespace {

using cmd::testing::Ran;
using cmd::testing::Running;

constexpr Nanos kJobTimeout = std::chrono::minutes(5);

std::string Baton() { return Runfile("src/cmd/baton_unstamped"); }

// custom_id -> what the answer says.
std::map<std::string, std::string> Contents(const std::string& path) {
  std::map<std::string, std::string> contents;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (row.is_discarded()) {
      ADD_FAILURE() << path << ": not JSON: " << line;
      continue;
    }
    EXPECT_EQ(row["response"]["status_code"], 200) << line;
    const auto& choice = row["response"]["body"]["choices"][0];
    const std::string id = row["custom_id"];
    EXPECT_FALSE(contents.contains(id)) << id << " has two rows";
    contents[id] = choice.contains("message") ? choice["message"]["content"].get<std::string>()
                                              : choice["text"].get<std::string>();
  }
  return contents;
}

Ran RunBatch(const std::vector<std::string>& where, const std::string& output) {
  std::vector<std::string> arguments = {"batch", "--input", Runfile("examples/prompts.jsonl"),
                                        "--output", output};
  arguments.insert(arguments.end(), where.begin(), where.end());
  return Running(Baton(), arguments).Wait(kJobTimeout);
}

TEST(RealBroker, TheSameBatchGivesTheSameAnswersOnBothKindsOfBroker) {
  const std::string folder = ::testing::TempDir();
  Result<std::unique_ptr<bus::RealBroker>> broker = bus::RealBroker::Start({});
  ASSERT_TRUE(broker.ok()) << broker.status().ToString();
  const std::string at = (*broker)->bootstrap();

  Running controller(Baton(), {"controller", "--bootstrap", at});
  Running context(Baton(), {"instance", "--bootstrap", at, "--name", "ctx-0", "--role", "context"});
  Running generation(Baton(),
                     {"instance", "--bootstrap", at, "--name", "gen-0", "--role", "generation"});
  const Ran real = RunBatch({"--bootstrap", at}, folder + "/real.jsonl");
  EXPECT_EQ(real.code, 1) << real.err;  // the example's broken line
  for (const Running* process : {&controller, &context, &generation}) {
    kill(process->pid(), SIGTERM);
  }
  EXPECT_EQ(context.Wait(std::chrono::seconds(60)).code, 0);
  EXPECT_EQ(generation.Wait(std::chrono::seconds(60)).code, 0);
  EXPECT_EQ(controller.Wait(std::chrono::seconds(60)).code, 0);

  const Ran embedded = RunBatch({}, folder + "/embedded.jsonl");
  EXPECT_EQ(embedded.code, 1) << embedded.err;

  const auto real_answers = Contents(folder + "/real.jsonl");
  EXPECT_EQ(real_answers.size(), 23U);
  EXPECT_EQ(real_answers, Contents(folder + "/embedded.jsonl"));
}

}  // namespace
}  // namespace baton::cluster
