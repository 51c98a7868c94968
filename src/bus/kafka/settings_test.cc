#include "src/bus/kafka/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace baton::bus::kafka {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

KafkaOptions With(const std::string& key, const std::string& value) {
  KafkaOptions options;
  options.bootstrap = "127.0.0.1:1";
  options.settings[key] = value;
  return options;
}

Status Try(const KafkaOptions& options, rd_kafka_type_t type = RD_KAFKA_PRODUCER) {
  return MakeConf(options, type, "test").status();
}

std::string Read(const KafkaOptions& options, rd_kafka_type_t type, const char* key) {
  const ConfPtr conf = MakeConf(options, type, "test").value();
  char value[512] = "";
  size_t size = sizeof value;
  EXPECT_EQ(rd_kafka_conf_get(conf.get(), key, value, &size), RD_KAFKA_CONF_OK) << key;
  return value;
}

TEST(KafkaSettings, AnUnknownSettingIsRefusedByName) {
  const Status status = Try(With("no.such.thing", "1"));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("kafka.no.such.thing"));
}

TEST(KafkaSettings, ABadValueIsRefusedNamingTheSettingAndTheReason) {
  const Status status = Try(With("security.protocol", "carrier-pigeon"));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("kafka.security.protocol"));
  EXPECT_THAT(status.message(), HasSubstr("carrier-pigeon"));
}

TEST(KafkaSettings, WhatTheBusLeansOnIsRefusedWithTheReason) {
  for (const char* key : {"enable.auto.commit", "auto.offset.reset", "enable.idempotence",
                          "partitioner", "group.id", "bootstrap.servers", "acks"}) {
    const Status status = Try(With(key, "1"));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << key;
    EXPECT_THAT(status.message(), HasSubstr(std::string("kafka.") + key + " cannot be set: "));
  }
}

TEST(KafkaSettings, TheValueOfASecretIsInNoMessage) {
  const Status refused = Try(With("ssl_key", "hunter2"));
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.message(), HasSubstr("kafka.ssl_key"));
  EXPECT_THAT(refused.message(), Not(HasSubstr("hunter2")));
  KafkaOptions options = With("ssl.key.pem", "hunter2");  // read only when a handle is made
  options.settings["security.protocol"] = "ssl";
  const Status no_key = MakeKafkaBus(options).status();
  EXPECT_EQ(no_key.code(), StatusCode::kInvalidArgument) << no_key.ToString();
  EXPECT_THAT(no_key.message(), Not(HasSubstr("hunter2")));
  for (const char* key : {"sasl.password", "ssl.key.password", "ssl.key.pem", "ssl_key",
                          "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config"}) {
    EXPECT_TRUE(IsSecret(key)) << key;
  }
  for (const char* key : {"ssl.key.location", "sasl.username", "bootstrap.servers"}) {
    EXPECT_FALSE(IsSecret(key)) << key;
  }
}

TEST(KafkaSettings, ASettingReachesTheHandlesThatItIsFor) {
  EXPECT_EQ(Read(With("linger.ms", "7"), RD_KAFKA_PRODUCER, "linger.ms"), "7");
  EXPECT_EQ(Read(With("fetch.wait.max.ms", "7"), RD_KAFKA_CONSUMER, "fetch.wait.max.ms"), "7");
  EXPECT_EQ(Read(With("sasl.username", "me"), RD_KAFKA_CONSUMER, "sasl.username"), "me");
  // librdkafka complains in the log about a producer's setting on a consumer.
  EXPECT_NE(Read(With("linger.ms", "7"), RD_KAFKA_CONSUMER, "linger.ms"), "7");
}

TEST(KafkaSettings, ABadAddressOfTheBrokerIsRefused) {
  EXPECT_EQ(MakeKafkaBus({}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::bus::kafka
