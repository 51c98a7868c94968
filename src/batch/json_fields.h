// Private to src/batch, included by .cc files only: reads typed fields of a JSON object and keeps
// the first thing that is wrong. null counts as absent, as OpenAI has it. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "src/batch/translate.h"

namespace baton::batch::internal {

using Json = nlohmann::ordered_json;

// Parses `text` within a depth of 64 without throwing; empty with `why` filled when it is not JSON.
std::optional<Json> ParseJson(std::string_view text, std::string* why);

class Fields {
 public:
  // `object` is an object and outlives this.
  explicit Fields(const Json& object) : object_(object) {}

  // Null when the field is absent or null.
  const Json* Find(const char* name) const;
  std::optional<std::string> Text(const char* name);
  std::optional<bool> Flag(const char* name);
  // A JSON integer within [low, high].
  std::optional<int64_t> Integer(const char* name, int64_t low, int64_t high);
  // A finite number that fits a float.
  std::optional<float> Number(const char* name);

  // The first failure stays.
  void Fail(std::string_view param, std::string_view why, std::string_view code = "invalid_value");
  bool ok() const { return !fault_.has_value(); }
  // Call when not ok().
  const LineFault& fault() const { return *fault_; }

 private:
  const Json& object_;
  std::optional<LineFault> fault_;
};

}  // namespace baton::batch::internal
