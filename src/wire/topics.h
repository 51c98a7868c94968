// Names and shapes of all topics (design §4). The prefix ("baton" by default) keeps several
// clusters on one broker apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/wire/messages.h"

namespace baton::wire {

struct TopicSpec {
  std::string name;
  int32_t partitions = 1;
  // Broker settings beyond defaults, e.g. {"cleanup.policy", "compact"}.
  std::vector<std::pair<std::string, std::string>> config;
};

class Topics {
 public:
  explicit Topics(std::string prefix = "baton") : prefix_(std::move(prefix)) {}

  static constexpr int32_t kRequestPartitions = 4;
  static constexpr int32_t kAssignSlots = 256;  // slot 0 carries grants
  static constexpr int32_t kEventPartitions = 4;
  static constexpr int32_t kResultPartitions = 16;
  static constexpr int32_t kTokenPartitions = 16;
  static constexpr int32_t kControlPartitions = 4;

  std::string Requests(Priority priority) const;  // "<prefix>.requests.{high,normal,batch}"
  std::string Assign() const { return prefix_ + ".assign"; }
  std::string Events() const { return prefix_ + ".events"; }
  std::string Instances() const { return prefix_ + ".instances"; }  // keys reg/<name>, hb/<name>
  std::string Ledger() const { return prefix_ + ".ledger"; }
  std::string Results() const { return prefix_ + ".results"; }
  std::string Tokens() const { return prefix_ + ".tokens"; }
  std::string Control() const { return prefix_ + ".control"; }
  std::string Dead() const { return prefix_ + ".dead"; }
  std::string Controllers() const { return prefix_ + ".controllers"; }  // election only
  const std::string& prefix() const { return prefix_; }

  // Everything to provision, with retention and compaction settings.
  std::vector<TopicSpec> All() const;

 private:
  std::string prefix_;
};

}  // namespace baton::wire
