#include "src/batch/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace baton::batch::internal {
namespace {

constexpr int kDepthMax = 64;

// Looks at the text before a tree is made of it: depth, and where and why it is no JSON. Numbers
// past a double (1e999) are errors of the parser itself.
class Lint : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return Enter(); }
  bool start_array(std::size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // Cuts the library's own name and position off: "[json.exception.parse_error.101] ...: why".
    std::string_view why = error.what();
    if (const size_t colon = why.find(": "); colon != std::string_view::npos) {
      why.remove_prefix(colon + 2);
    } else if (const size_t bracket = why.find("] "); bracket != std::string_view::npos) {
      why.remove_prefix(bracket + 2);
    }
    constexpr size_t kWhyBytesMax = 200;
    why_ = fmt::format("not valid JSON at byte {}: {}", position, why.substr(0, kWhyBytesMax));
    return false;
  }
  const std::string& why() const { return why_; }

 private:
  bool Enter() {
    if (++depth_ <= kDepthMax) return true;
    why_ = fmt::format("nested more than {} deep", kDepthMax);
    return false;
  }
  bool Leave() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  std::string why_;
};

}  // namespace

std::optional<Json> ParseJson(std::string_view text, std::string* why) {
  Lint lint;
  if (!Json::sax_parse(text.begin(), text.end(), &lint)) {
    *why = lint.why();
    return std::nullopt;
  }
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    *why = "not valid JSON";
    return std::nullopt;
  }
  return json;
}

const Json* Fields::Find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> Fields::Text(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Fail(name, "must be a string");
  return std::nullopt;
}

std::optional<bool> Fields::Flag(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Fail(name, "must be true or false");
  return std::nullopt;
}

std::optional<int64_t> Fields::Integer(const char* name, int64_t low, int64_t high) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const bool too_big = value->is_number_unsigned() &&
                       value->get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
  if (!value->is_number_integer() || too_big || value->get<int64_t>() < low ||
      value->get<int64_t>() > high) {
    Fail(name, fmt::format("must be a whole number from {} to {}", low, high));
    return std::nullopt;
  }
  return value->get<int64_t>();
}

std::optional<float> Fields::Number(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() ||
      !(std::abs(value->get<double>()) <= std::numeric_limits<float>::max())) {
    Fail(name, "must be a number");
    return std::nullopt;
  }
  return static_cast<float>(value->get<double>());
}

void Fields::Fail(std::string_view param, std::string_view why, std::string_view code) {
  if (fault_) return;
  fault_ = LineFault{.code = std::string(code),
                     .message = fmt::format("'{}': {}", param, why),
                     .param = std::string(param),
                     .custom_id = {},
                     .body_refused = true};
}

}  // namespace baton::batch::internal
