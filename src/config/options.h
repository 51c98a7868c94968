// The one table of options: key, flag, unit, range, default and meaning. The TOML reader, the
// command line, `--help` and `baton config` are made from it. Thread-safe, never changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/config/config.h"

namespace baton::config {

enum class OptionKind : uint8_t { kText, kChoice, kInteger, kBoolean };

struct Option {
  std::string_view key;   // "engine.running_max"; the part before the dot is the group
  std::string_view flag;  // "--running-max"
  OptionKind kind = OptionKind::kText;
  std::string_view unit;  // "ms", "blocks"; empty: none
  std::string_view help;
  int64_t min = 0;  // kInteger
  int64_t max = 0;
  std::vector<std::string_view> choices;  // kChoice
  // The place of the value; which one is set follows from `kind`.
  std::string& (*text)(Config&) = nullptr;
  int64_t& (*integer)(Config&) = nullptr;
  bool& (*boolean)(Config&) = nullptr;

  std::string_view group() const { return key.substr(0, key.find('.')); }
  // "1 to 64 ranks", "one of f32, bf16", "true or false", "text".
  std::string Range() const;
  std::string Get(const Config& config) const;
  std::string Default() const;
};

const std::vector<Option>& AllOptions();
// Null when there is no such key.
const Option* FindOption(std::string_view key);

// `source` is where the value was written ("--tp", "cluster.toml line 3"). kInvalidArgument:
//   --tp: instance.tp = "x" is not possible: 1 to 64 ranks; leave it out for the default, 1
// A key that starts with "kafka." goes to Bus::kafka as it stands.
Status SetOption(std::string_view key, std::string_view value, std::string_view source,
                 Config* config);

// Single-character insertions, deletions and changes between two texts (Levenshtein 1966).
size_t EditDistance(std::string_view a, std::string_view b);
// The known key with the smallest edit distance.
std::string_view NearestKey(std::string_view key);

// Every option with default, unit, range and meaning, by group; for `baton config`.
std::string DescribeOptions();

}  // namespace baton::config
