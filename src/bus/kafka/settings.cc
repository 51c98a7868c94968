#include "src/bus/kafka/settings.h"

#include <fmt/format.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::bus::kafka {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Refusal {
  std::string_view key;
  std::string_view reason;
};

// Settings that the code of this folder leans on.
constexpr Refusal kRefused[] = {
    {"bootstrap.servers", "the broker address has its own option"},
    {"metadata.broker.list", "the broker address has its own option"},
    {"client.id", "it is made from the process and handle names"},
    {"group.id", "the bus assigns partitions by hand and uses no groups"},
    {"group.instance.id", "the bus assigns partitions by hand and uses no groups"},
    {"enable.auto.commit", "positions are ledger records, not group offsets"},
    {"enable.auto.offset.store", "positions are ledger records, not group offsets"},
    {"auto.offset.reset", "a lost offset has to be reported, never skipped"},
    {"enable.partition.eof", "the end of a partition is no event of the bus"},
    {"enable.idempotence", "without it a retry could duplicate or reorder records"},
    {"acks", "a delivery that was reported OK must be durable"},
    {"request.required.acks", "a delivery that was reported OK must be durable"},
    {"partitioner", "every client has to agree on the partition of a key"},
    {"transactional.id", "producers of the bus are not transactional"},
    {"delivery.report.only.error", "every record gets its delivery report"},
    {"enable.gapless.guarantee", "it turns errors of one record into the end of the producer"},
    {"test.mock.num.brokers", "the embedded cluster is started by its own option"},
};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// librdkafka knows which settings belong to producers ("P"), consumers ("C") or both ("*"), but
// tells so only in the table that it prints.
std::map<std::string, char> ReadScopes() {
  std::map<std::string, char> scopes;
  char* text = nullptr;
  size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  if (stream == nullptr) return scopes;
  rd_kafka_conf_properties_show(stream);
  fclose(stream);
  const std::string_view table(text, size);
  for (size_t at = 0; at < table.size();) {
    const size_t end = std::min(table.find('\n', at), table.size());
    const std::string_view line = table.substr(at, end - at);
    at = end + 1;
    const size_t key_end = line.find(' ');
    const size_t bar = line.find('|');
    if (key_end == line.npos || bar == line.npos) continue;
    const size_t scope = line.find_first_not_of(' ', bar + 1);
    if (scope != line.npos) scopes.emplace(line.substr(0, key_end), line[scope]);
  }
  free(text);
  return scopes;
}

bool AppliesTo(const std::string& key, rd_kafka_type_t type) {
  static const std::map<std::string, char> scopes = ReadScopes();
  const auto found = scopes.find(key);
  if (found == scopes.end()) return true;  // unknown: librdkafka refuses it with its own words
  if (found->second == 'P') return type == RD_KAFKA_PRODUCER;
  if (found->second == 'C') return type == RD_KAFKA_CONSUMER;
  return true;
}

Pairs CommonDefaults(const KafkaOptions& options, const std::string& client_id) {
  return {
      {"bootstrap.servers", options.bootstrap},
      {"client.id", client_id},
      {"socket.nagle.disable", "true"},
      {"socket.keepalive.enable", "true"},
      {"reconnect.backoff.ms", "50"},
      {"reconnect.backoff.max.ms", "2000"},
      {"topic.metadata.refresh.interval.ms", "60000"},
      {"log.connection.close", "false"},
      {"broker.address.family", "v4"},  // localhost is ::1 as well, where few brokers listen
      // The embedded cluster knows no such wish and would be complained about in each log.
      {"allow.auto.create.topics", options.embedded ? "true" : "false"},
      // A record's own limit is checked by Produce(); this one is for the request around it.
      {"message.max.bytes", std::to_string(options.max_record_bytes + (64 << 10))},
  };
}

Pairs ProducerDefaults(const KafkaOptions& options) {
  return {
      {"enable.idempotence", "true"},
      {"linger.ms", "0"},
      {"message.timeout.ms", std::to_string(options.delivery_timeout.count())},
      {"request.timeout.ms", "10000"},
      {"queue.buffering.max.messages", std::to_string(options.queue_records)},
      {"queue.buffering.max.kbytes",
       std::to_string(std::max<int64_t>(1, options.queue_bytes >> 10))},
      {"sticky.partitioning.linger.ms", "0"},
      {"retry.backoff.ms", "20"},
      {"partitioner", "murmur2_random"},
  };
}

Pairs ConsumerDefaults(const KafkaOptions& options, const std::string& client_id) {
  const Millis wait = options.fetch_wait.value_or(options.embedded ? Millis(2) : Millis(100));
  const int64_t fetch_bytes = std::max<int64_t>(16 << 20, options.max_record_bytes + (1 << 20));
  return {
      {"group.id", client_id},  // librdkafka asks for one; nothing ever joins it
      {"enable.auto.commit", "false"},
      {"enable.auto.offset.store", "false"},
      {"auto.offset.reset", "error"},
      {"enable.partition.eof", "false"},
      {"fetch.wait.max.ms", std::to_string(wait.count())},
      {"fetch.min.bytes", "1"},
      {"fetch.error.backoff.ms", "20"},
      // A full prefetch queue is looked at again only after a while in 2.0.2 (believed to be a
      // second, not measured), so its bound is bytes, and records are many.
      {"queued.min.messages", "100000"},
      {"queued.max.messages.kbytes", "16384"},
      {"fetch.message.max.bytes", std::to_string(options.max_record_bytes + (64 << 10))},
      {"fetch.max.bytes", std::to_string(fetch_bytes)},
      {"receive.message.max.bytes", std::to_string(fetch_bytes + (16 << 20))},
      {"check.crcs", "true"},
  };
}

Status Set(rd_kafka_conf_t* conf, const std::string& key, const std::string& value) {
  char reason[512] = "";
  switch (rd_kafka_conf_set(conf, key.c_str(), value.c_str(), reason, sizeof reason)) {
    case RD_KAFKA_CONF_OK:
      return OkStatus();
    case RD_KAFKA_CONF_UNKNOWN:
      return InvalidArgumentError(
          fmt::format("kafka.{}: librdkafka {} has no such setting", key, rd_kafka_version_str()));
    default:
      return InvalidArgumentError(fmt::format(
          "kafka.{}: {}", key, IsSecret(key) ? "its value is refused (not shown)" : reason));
  }
}

Status CheckAllowed(const std::string& key) {
  for (const Refusal& refusal : kRefused) {
    if (key == refusal.key) {
      return InvalidArgumentError(fmt::format("kafka.{} cannot be set: {}", key, refusal.reason));
    }
  }
  return OkStatus();
}

}  // namespace

bool IsSecret(const std::string& key) {
  constexpr std::string_view kParts[] = {"password", "secret", "oauthbearer.config", "pem"};
  if (std::any_of(std::begin(kParts), std::end(kParts),
                  [&](std::string_view part) { return Contains(key, part); })) {
    return true;
  }
  return Contains(key, "key") && !Contains(key, "location");
}

Result<ConfPtr> MakeConf(const KafkaOptions& options, rd_kafka_type_t type,
                         const std::string& client_id) {
  ConfPtr conf(rd_kafka_conf_new());
  Pairs pairs = CommonDefaults(options, client_id);
  const Pairs own =
      type == RD_KAFKA_PRODUCER ? ProducerDefaults(options) : ConsumerDefaults(options, client_id);
  pairs.insert(pairs.end(), own.begin(), own.end());
  for (const auto& [key, value] : pairs) BATON_RETURN_IF_ERROR(Set(conf.get(), key, value));
  for (const auto& [key, value] : options.settings) {
    BATON_RETURN_IF_ERROR(CheckAllowed(key));
    if (AppliesTo(key, type)) BATON_RETURN_IF_ERROR(Set(conf.get(), key, value));
  }
  return conf;
}

}  // namespace baton::bus::kafka
