#include "src/config/config.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "src/config/options.h"

namespace baton::config {
namespace {

constexpr int64_t kRanksMax = 1;  // of one instance: the engine is not yet spread over ranks

// A value as the text that SetOption takes; empty for what is neither text, number nor boolean.
std::optional<std::string> ValueText(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* real = node.as_floating_point()) return fmt::format("{}", real->get());
  return std::nullopt;
}

Status ApplyTable(const toml::table& table, const std::string& prefix, const std::string& path,
                  Config* config) {
  for (const auto& [key, node] : table) {
    const std::string full =
        prefix.empty() ? std::string(key.str()) : fmt::format("{}.{}", prefix, key.str());
    const std::string source = fmt::format("{} line {}", path, node.source().begin.line);
    if (const toml::table* inner = node.as_table()) {
      BATON_RETURN_IF_ERROR(ApplyTable(*inner, full, path, config));
      continue;
    }
    const std::optional<std::string> text = ValueText(node);
    if (!text.has_value()) {
      return InvalidArgumentError(
          fmt::format("{}: {} holds a list or a date; write text, a whole number, true or false",
                      source, full));
    }
    BATON_RETURN_IF_ERROR(SetOption(full, *text, source, config));
  }
  return OkStatus();
}

// Paths in a file are meant from where the file lies.
void ResolvePath(const std::filesystem::path& folder, const std::string& before,
                 std::string* path) {
  if (path->empty() || *path == before) return;
  if (std::filesystem::path(*path).is_relative()) *path = (folder / *path).string();
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

Status Conflict(std::string_view what, std::string_view cure) {
  return InvalidArgumentError(fmt::format("{}; {}", what, cure));
}

Status ValidateEngine(const Config& config) {
  const Engine& engine = config.engine;
  if (engine.running_max > engine.queue_max) {
    return Conflict(fmt::format("engine.running_max = {} is above engine.queue_max = {}",
                                engine.running_max, engine.queue_max),
                    "raise engine.queue_max or lower engine.running_max");
  }
  if (engine.running_max > engine.step_tokens_max) {
    return Conflict(fmt::format("engine.running_max = {} is above engine.step_tokens_max = {}: "
                                "a step could not hold one token of each",
                                engine.running_max, engine.step_tokens_max),
                    "raise engine.step_tokens_max or lower engine.running_max");
  }
  if (config.model.backend == "reference" && config.model.dtype != "f32") {
    return Conflict(fmt::format("model.backend = reference computes in f32 only, and model.dtype "
                                "= {}",
                                config.model.dtype),
                    "set model.dtype (--dtype) to f32, or model.backend (--backend) to cpu");
  }
  return OkStatus();
}

Status ValidateControl(const Config& config) {
  const Controller& controller = config.controller;
  if (controller.suspect_ms >= controller.dead_ms) {
    return Conflict(fmt::format("controller.suspect_ms = {} is not below controller.dead_ms = {}",
                                controller.suspect_ms, controller.dead_ms),
                    "an instance is suspected before it is dead: raise controller.dead_ms");
  }
  return OkStatus();
}

Status ValidateTopology(const Config& config) {
  const Cluster& cluster = config.cluster;
  if (cluster.mixed == 0 && (cluster.context == 0 || cluster.generation == 0)) {
    return Conflict(fmt::format("cluster.context = {}, cluster.generation = {}, cluster.mixed = 0: "
                                "nobody could finish a request",
                                cluster.context, cluster.generation),
                    "start at least one of both, or a mixed one");
  }
  if (config.instance.tp * config.instance.pp > kRanksMax) {
    return Conflict(
        fmt::format("instance.tp = {}, instance.pp = {}: an instance has {} rank so far",
                    config.instance.tp, config.instance.pp, kRanksMax),
        "set both to 1 and start more instances");
  }
  return OkStatus();
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

Status ValidateName(std::string_view key, const std::string& value, size_t max) {
  if (value.size() <= max && std::all_of(value.begin(), value.end(), IsNameCharacter)) {
    return OkStatus();
  }
  return InvalidArgumentError(fmt::format(
      "{} = \"{}\" is not possible: at most {} letters, digits, '-', '_' and '.'; choose another",
      key, value, max));
}

}  // namespace

Status ApplyFile(const std::string& path, Config* config) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return NotFoundError(fmt::format("there is no configuration file {}", path));
  }
  const std::string model_before = config->model.path;
  const std::string logs_before = config->cluster.log_folder;
  try {
    BATON_RETURN_IF_ERROR(ApplyTable(toml::parse_file(path), "", path, config));
  } catch (const toml::parse_error& parse_error) {
    return InvalidArgumentError(fmt::format("{} line {}: {}", path, parse_error.source().begin.line,
                                            parse_error.description()));
  } catch (const std::exception& other) {
    return InternalError(fmt::format("{}: {}", path, other.what()));
  }
  const auto folder = std::filesystem::absolute(path, error).parent_path();
  ResolvePath(folder, model_before, &config->model.path);
  ResolvePath(folder, logs_before, &config->cluster.log_folder);
  return OkStatus();
}

Status Validate(const Config& config) {
  BATON_RETURN_IF_ERROR(ValidateName("bus.prefix", config.bus.prefix, 64));
  if (config.bus.prefix.empty()) {
    return InvalidArgumentError("bus.prefix = \"\" is not possible: topics need a first part");
  }
  // The transfer folder's sockets carry the name; 40 keeps them below the system's 108.
  BATON_RETURN_IF_ERROR(ValidateName("instance.name", config.instance.name, 40));
  BATON_RETURN_IF_ERROR(ValidateName("batch.tenant", config.batch.tenant, 64));
  BATON_RETURN_IF_ERROR(ValidateEngine(config));
  BATON_RETURN_IF_ERROR(ValidateControl(config));
  return ValidateTopology(config);
}

std::string ToToml(const Config& config, bool redact) {
  std::string text;
  for (const Option& option : AllOptions()) {
    const std::string value = option.Get(config);
    if (value == option.Default()) continue;
    const bool quoted = option.kind == OptionKind::kText || option.kind == OptionKind::kChoice;
    text += fmt::format("{} = {}\n", option.key, quoted ? Quoted(value) : value);
  }
  for (const auto& [key, value] : config.bus.kafka) {
    const bool hidden = redact && IsSecret(key);
    text += fmt::format("kafka.{} = {}\n", Quoted(key), Quoted(hidden ? "***" : value));
  }
  return text;
}

bool IsSecret(const std::string& kafka_key) {
  static constexpr std::string_view kMarks[] = {"password", "secret", "oauthbearer.config",
                                                "key.pem",  "token",  "credential"};
  return std::any_of(std::begin(kMarks), std::end(kMarks), [&](std::string_view mark) {
    return kafka_key.find(mark) != std::string::npos;
  });
}

}  // namespace baton::config
