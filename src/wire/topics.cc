#include "src/wire/topics.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include "src/wire/codec.h"

namespace baton::wire {
namespace {

using Config = std::vector<std::pair<std::string, std::string>>;

constexpr std::string_view kTenMinutesMs = "600000";
constexpr std::string_view kHourMs = "3600000";
constexpr std::string_view kSixHoursMs = "21600000";
constexpr std::string_view kDayMs = "86400000";
// Results outlive the window (24 h) in which a repeat must find its answer, by a margin for
// clocks that differ and for the segment that is still open.
constexpr std::string_view kResultsMs = "108000000";  // 30 h
constexpr std::string_view kWeekMs = "604800000";

// Every topic takes the largest message of the codec, and Kafka's framing around it.
Config Base(std::string_view policy) {
  constexpr size_t kFramingBytes = 64u << 10;
  return {{"cleanup.policy", std::string(policy)},
          {"max.message.bytes", std::to_string(kMessageBytesMax + kFramingBytes)}};
}

Config Deleted(std::string_view retention_ms) {
  Config config = Base("delete");
  config.emplace_back("retention.ms", retention_ms);
  return config;
}

// Nothing younger than min.compaction.lag.ms is compacted away, so that a controller can still see
// and repair what a stale predecessor wrote over a key.
Config Compacted(std::string_view policy) {
  Config config = Base(policy);
  config.emplace_back("segment.ms", kTenMinutesMs);
  config.emplace_back("min.cleanable.dirty.ratio", "0.1");
  config.emplace_back("min.compaction.lag.ms", kTenMinutesMs);
  config.emplace_back("max.compaction.lag.ms", kHourMs);
  config.emplace_back("delete.retention.ms", kDayMs);
  return config;
}

Config InstancesConfig() {
  Config config = Compacted("compact,delete");
  // A registration repeats until it is granted and a heartbeat comes each second.
  config.emplace_back("retention.ms", kTenMinutesMs);
  return config;
}

}  // namespace

std::string Topics::Requests(Priority priority) const {
  switch (priority) {
    case Priority::kHigh:
      return prefix_ + ".requests.high";
    case Priority::kNormal:
      return prefix_ + ".requests.normal";
    case Priority::kBatch:
      return prefix_ + ".requests.batch";
  }
  return prefix_ + ".requests.normal";
}

std::vector<TopicSpec> Topics::All() const {
  return {
      {Requests(Priority::kHigh), kRequestPartitions, Deleted(kSixHoursMs)},
      {Requests(Priority::kNormal), kRequestPartitions, Deleted(kSixHoursMs)},
      // A batch may wait for a night's worth of other work.
      {Requests(Priority::kBatch), kRequestPartitions, Deleted(kDayMs)},
      {Assign(), kAssignSlots, Deleted(kHourMs)},
      {Events(), kEventPartitions, Deleted(kSixHoursMs)},
      {Instances(), 1, InstancesConfig()},
      {Ledger(), 1, Compacted("compact")},
      {Results(), kResultPartitions, Deleted(kResultsMs)},
      {Tokens(), kTokenPartitions, Deleted(kHourMs)},
      {Control(), kControlPartitions, Deleted(kHourMs)},
      {Dead(), 1, Deleted(kWeekMs)},
      {Controllers(), 1, Deleted(kHourMs)},
  };
}

}  // namespace baton::wire
