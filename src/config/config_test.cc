#include "src/config/config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "src/config/options.h"

namespace baton::config {
namespace {

std::string WriteFile(const std::string& text) {
  static int count = 0;
  const char* folder = getenv("TEST_TMPDIR");
  const std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/config-" +
                           std::to_string(++count) + ".toml";
  std::ofstream(path) << text;
  return path;
}

Status Apply(const std::string& text, Config* config) { return ApplyFile(WriteFile(text), config); }

// The message of a refused file holds all of these.
void ExpectRefused(const std::string& text, const std::vector<std::string>& parts) {
  Config config;
  const Status status = Apply(text, &config);
  ASSERT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
  for (const std::string& part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " in " << status.message();
  }
}

TEST(ConfigTest, DefaultsAreValid) { EXPECT_EQ(Validate(Config()), OkStatus()); }

TEST(ConfigTest, DefaultsLieInTheirOwnRanges) {
  for (const Option& option : AllOptions()) {
    Config config;
    EXPECT_EQ(SetOption(option.key, option.Default(), "default", &config), OkStatus());
  }
}

TEST(ConfigTest, KeysAndFlagsAreUniqueAndExplained) {
  std::set<std::string_view> seen;
  for (const Option& option : AllOptions()) {
    EXPECT_TRUE(seen.insert(option.key).second) << option.key;
    EXPECT_TRUE(seen.insert(option.flag).second) << option.flag;
    EXPECT_FALSE(option.help.empty()) << option.key;
    EXPECT_EQ(option.kind != OptionKind::kInteger, option.unit.empty()) << option.key;
    EXPECT_NE(DescribeOptions().find(option.key), std::string::npos);
  }
}

TEST(ConfigTest, AFileSetsEveryKindOfValue) {
  Config config;
  ASSERT_EQ(Apply("[bus]\nbootstrap = 'a:1'\n[engine]\nrunning_max = 7\nprefix_cache = false\n"
                  "[model]\ndtype = 'f32'\n[kafka]\nssl.ca.location = '/ca'\n'retries' = 3\n",
                  &config),
            OkStatus());
  EXPECT_EQ(config.bus.bootstrap, "a:1");
  EXPECT_EQ(config.engine.running_max, 7);
  EXPECT_FALSE(config.engine.prefix_cache);
  EXPECT_EQ(config.model.dtype, "f32");
  EXPECT_EQ(config.bus.kafka.at("ssl.ca.location"), "/ca");
  EXPECT_EQ(config.bus.kafka.at("retries"), "3");
}

TEST(ConfigTest, AnUnknownKeyIsRefusedWithTheNearestOne) {
  ExpectRefused("[engine]\nruning_max = 7\n",
                {"line 2", "engine.runing_max", "did you mean \"engine.running_max\""});
  ExpectRefused("model = 'x.gguf'\n", {"line 1", "\"model\""});
}

TEST(ConfigTest, ABadValueNamesKeyValueRangeAndDefault) {
  ExpectRefused("[instance]\ntp = 65\n",
                {"line 2", "instance.tp", "\"65\"", "1 to 64 ranks", "default, 1"});
  ExpectRefused("[instance]\nrole = 'boss'\n",
                {"instance.role", "\"boss\"", "one of context, generation, mixed"});
  ExpectRefused("[engine]\nprefix_cache = 1\n", {"engine.prefix_cache", "true or false"});
  ExpectRefused("[engine]\nrunning_max = 1.5\n", {"engine.running_max", "\"1.5\""});
  ExpectRefused("[engine]\nrunning_max = '12x'\n", {"\"12x\""});
  ExpectRefused("[engine]\nrunning_max = -1\n", {"\"-1\"", "1 to 4096"});
  ExpectRefused("[engine]\nrunning_max = 99999999999999999999\n", {"line 2"});
  ExpectRefused("[engine]\nrunning_max = [1]\n", {"engine.running_max", "list"});
}

TEST(ConfigTest, ABrokenFileNamesItsLine) { ExpectRefused("[bus]\nbootstrap = \n", {"line 2"}); }

TEST(ConfigTest, AMissingFileIsNotFound) {
  Config config;
  EXPECT_EQ(ApplyFile("/nonexistent.toml", &config).code(), StatusCode::kNotFound);
}

TEST(ConfigTest, PathsInAFileAreRelativeToTheFile) {
  Config config;
  const std::string path = WriteFile("[model]\npath = 'm.gguf'\n");
  ASSERT_EQ(ApplyFile(path, &config), OkStatus());
  EXPECT_EQ(config.model.path, path.substr(0, path.rfind('/')) + "/m.gguf");
}

TEST(ConfigTest, ConflictingValuesNameBothAndTheCure) {
  const auto refused = [](void (*change)(Config&)) {
    Config config;
    change(config);
    const Status status = Validate(config);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_NE(refused([](Config& c) { c.engine.running_max = 2000; }).find("queue_max = 1024"),
            std::string::npos);
  EXPECT_NE(refused([](Config& c) { c.engine.step_tokens_max = 32; }).find("step_tokens_max = 32"),
            std::string::npos);
  EXPECT_NE(refused([](Config& c) { c.model.backend = "reference"; }).find("--dtype"),
            std::string::npos);
  EXPECT_NE(refused([](Config& c) { c.controller.suspect_ms = 8000; }).find("dead_ms = 8000"),
            std::string::npos);
  EXPECT_NE(refused([](Config& c) { c.cluster.generation = 0; }).find("nobody could finish"),
            std::string::npos);
  EXPECT_NE(refused([](Config& c) { c.instance.tp = 2; }).find("instance.tp = 2"),
            std::string::npos);
  EXPECT_NE(refused([](Config& c) { c.bus.prefix = "a b"; }).find("\"a b\""), std::string::npos);
  EXPECT_NE(refused([](Config& c) { c.instance.name = "a/b"; }).find("instance.name"),
            std::string::npos);
}

TEST(ConfigTest, WhatIsWrittenReadsBackTheSame) {
  Config config;
  config.bus.bootstrap = "broker \"one\"\\:1\n";
  config.engine.prefix_cache = false;
  config.instance.tp = 4;
  config.bus.kafka = {{"sasl.password", "hunter2"}, {"security.protocol", "SASL_SSL"}};
  Config read;
  ASSERT_EQ(Apply(ToToml(config, /*redact=*/false), &read), OkStatus());
  EXPECT_EQ(ToToml(read, false), ToToml(config, false));
  EXPECT_EQ(read.bus.bootstrap, config.bus.bootstrap);
  EXPECT_EQ(read.bus.kafka, config.bus.kafka);
}

TEST(ConfigTest, SecretsNeverReachADump) {
  Config config;
  config.bus.kafka = {{"sasl.password", "hunter2"},
                      {"ssl.key.password", "hunter2"},
                      {"ssl.key.pem", "hunter2"},
                      {"sasl.oauthbearer.client.secret", "hunter2"},
                      {"sasl.username", "alice"}};
  const std::string dump = ToToml(config, /*redact=*/true);
  EXPECT_EQ(dump.find("hunter2"), std::string::npos) << dump;
  EXPECT_NE(dump.find("alice"), std::string::npos);
  EXPECT_EQ(ToToml(Config(), true), "");
}

}  // namespace
}  // namespace baton::config
