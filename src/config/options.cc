#include "src/config/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "src/base/check.h"

namespace baton::config {
namespace {

constexpr int64_t kDayMs = 86'400'000;

#define TEXT(member) [](Config& c) -> std::string& { return c.member; }
#define INTEGER(member) [](Config& c) -> int64_t& { return c.member; }
#define BOOLEAN(member) [](Config& c) -> bool& { return c.member; }

Option Text(std::string_view key, std::string_view flag, std::string& (*text)(Config&),
            std::string_view help) {
  Option option{key, flag, OptionKind::kText, "", help};
  option.text = text;
  return option;
}

Option Choice(std::string_view key, std::string_view flag, std::string& (*text)(Config&),
              std::vector<std::string_view> choices, std::string_view help) {
  Option option{key, flag, OptionKind::kChoice, "", help};
  option.text = text;
  option.choices = std::move(choices);
  return option;
}

Option Integer(std::string_view key, std::string_view flag, int64_t& (*integer)(Config&),
               int64_t min, int64_t max, std::string_view unit, std::string_view help) {
  Option option{key, flag, OptionKind::kInteger, unit, help, min, max};
  option.integer = integer;
  return option;
}

Option Boolean(std::string_view key, std::string_view flag, bool& (*boolean)(Config&),
               std::string_view help) {
  Option option{key, flag, OptionKind::kBoolean, "", help};
  option.boolean = boolean;
  return option;
}

std::vector<Option> BusAndModel() {
  return {
      Text("bus.bootstrap", "--bootstrap", TEXT(bus.bootstrap),
           "Kafka brokers, host:port[,host:port]"),
      Text("bus.prefix", "--prefix", TEXT(bus.prefix),
           "first part of every topic's name; keeps clusters on one broker apart"),
      Boolean("bus.embedded", "--embedded", BOOLEAN(bus.embedded),
              "the broker is the embedded one of a `baton batch`"),
      Text("model.path", "--model", TEXT(model.path), "model file, GGUF, Llama architecture"),
      Text("model.name", "--model-name", TEXT(model.name),
           "what requests call the model; without it, the name in the file"),
      Choice("model.backend", "--backend", TEXT(model.backend), {"cpu", "reference"},
             "what computes: cpu is fast, reference is plain f32 loops"),
      Choice("model.dtype", "--dtype", TEXT(model.dtype), {"bf16", "f32"},
             "type of weights and KV in memory"),
      Integer("model.threads", "--threads", INTEGER(model.threads), 1, 256, "threads",
              "compute threads of one rank"),
      Integer("model.kv_blocks", "--kv-blocks", INTEGER(model.kv_blocks), 16, 1 << 24, "blocks",
              "KV blocks of one rank, 16 tokens each"),
  };
}

std::vector<Option> InstanceAndEngine() {
  return {
      Text("instance.name", "--name", TEXT(instance.name),
           "stable name; a second process with the same name replaces the first"),
      Choice("instance.role", "--role", TEXT(instance.role), {"context", "generation", "mixed"},
             "prefill, decode, or both"),
      Choice("instance.transport", "--transport", TEXT(instance.transport), {"mapped", "ucx"},
             "how KV passes between instances: memory of one host, or UCX"),
      Integer("instance.tp", "--tp", INTEGER(instance.tp), 1, 64, "ranks", "tensor parallel ranks"),
      Integer("instance.pp", "--pp", INTEGER(instance.pp), 1, 64, "ranks", "pipeline stages"),
      Integer("instance.credits", "--credits", INTEGER(instance.credits), 1, 4096, "requests",
              "assignments held at once"),
      Integer("instance.credit_bytes", "--credit-bytes", INTEGER(instance.credit_bytes), 65'536,
              64 << 20, "bytes", "bytes of assignments held at once; embedded broker: 2 MiB"),
      Integer("instance.heartbeat_ms", "--heartbeat-ms", INTEGER(instance.heartbeat_ms), 10, 60'000,
              "ms", "an instance says so often that it lives and works"),
      Integer("engine.queue_max", "--queue-max", INTEGER(engine.queue_max), 1, 1 << 20, "requests",
              "waiting and running requests; more are refused"),
      Integer("engine.running_max", "--running-max", INTEGER(engine.running_max), 1, 4096,
              "requests", "sequences in one step"),
      Integer("engine.step_tokens_max", "--step-tokens-max", INTEGER(engine.step_tokens_max), 16,
              1 << 20, "tokens", "token budget of a step"),
      Integer("engine.steps_ahead", "--steps-ahead", INTEGER(engine.steps_ahead), 0, 4, "steps",
              "steps launched before the previous one's tokens are read"),
      Boolean("engine.prefix_cache", "--prefix-cache", BOOLEAN(engine.prefix_cache),
              "reuse KV of equal prompt beginnings"),
      Integer("engine.offer_timeout_ms", "--offer-timeout-ms", INTEGER(engine.offer_timeout_ms),
              100, kDayMs, "ms", "a hand-off that nobody asks for ends then"),
      Integer("engine.transfer_timeout_ms", "--transfer-timeout-ms",
              INTEGER(engine.transfer_timeout_ms), 100, kDayMs, "ms",
              "a hand-off that makes no progress ends then"),
      Integer("engine.vote_deadline_ms", "--vote-deadline-ms", INTEGER(engine.vote_deadline_ms),
              100, kDayMs, "ms",
              "a rank's vote later than this is logged; later than twice this, "
              "the instance exits"),
  };
}

std::vector<Option> ControllerAndJobs() {
  return {
      Text("controller.name", "--controller-name", TEXT(controller.name), "name in logs"),
      Choice("controller.routing", "--routing", TEXT(controller.routing),
             {"least-loaded", "round-robin"}, "how an instance is chosen"),
      Integer("controller.short_prompt_tokens", "--short-prompt-tokens",
              INTEGER(controller.short_prompt_tokens), 0, 1 << 20, "tokens",
              "prompts up to this length run unsplit where a mixed instance serves too"),
      Integer("controller.in_flight_max", "--in-flight-max", INTEGER(controller.in_flight_max), 1,
              1 << 20, "requests", "accepted and not yet finished; intake pauses above"),
      Integer("controller.attempts_max", "--attempts-max", INTEGER(controller.attempts_max), 1, 10,
              "attempts", "tries of a request whose instance reported a failure"),
      Integer("controller.suspect_ms", "--suspect-ms", INTEGER(controller.suspect_ms), 100, kDayMs,
              "ms", "an instance silent for so long gets no new work"),
      Integer("controller.dead_ms", "--dead-ms", INTEGER(controller.dead_ms), 200, kDayMs, "ms",
              "an instance silent for so long is dead and its work goes elsewhere"),
      Integer("batch.window", "--window", INTEGER(batch.window), 1, 1 << 16, "requests",
              "rows submitted and not yet answered"),
      Text("batch.tenant", "--tenant", TEXT(batch.tenant), "tenant that requests belong to"),
      Integer("batch.stall_timeout_ms", "--stall-timeout-ms", INTEGER(batch.stall_timeout_ms), 1000,
              kDayMs, "ms", "a job without any answer for so long gives up"),
      Integer("cluster.context", "--context-instances", INTEGER(cluster.context), 0, 64,
              "instances", "context instances to start"),
      Integer("cluster.generation", "--generation-instances", INTEGER(cluster.generation), 0, 64,
              "instances", "generation instances to start"),
      Integer("cluster.mixed", "--mixed-instances", INTEGER(cluster.mixed), 0, 64, "instances",
              "instances to start that do both"),
      Integer("cluster.restarts_per_minute", "--restarts-per-minute",
              INTEGER(cluster.restarts_per_minute), 0, 60, "restarts",
              "of each process that ends by itself; more fail the job"),
      Integer("cluster.drain_timeout_ms", "--drain-timeout-ms", INTEGER(cluster.drain_timeout_ms),
              0, 600'000, "ms", "what running requests get at a stop"),
      Text("cluster.log_folder", "--log-folder", TEXT(cluster.log_folder),
           "where started processes write their logs; without it, the last lines are "
           "shown when one fails"),
      Choice("log.level", "--log-level", TEXT(log.level), {"debug", "info", "warning", "error"},
             "least severe line that is written"),
  };
}

#undef TEXT
#undef INTEGER
#undef BOOLEAN

std::vector<Option> MakeTable() {
  std::vector<Option> table = BusAndModel();
  for (auto& part : {InstanceAndEngine(), ControllerAndJobs()}) {
    table.insert(table.end(), part.begin(), part.end());
  }
  return table;
}

bool ParseValue(const Option& option, std::string_view value, Config* config) {
  switch (option.kind) {
    case OptionKind::kText:
      option.text(*config) = value;
      return true;
    case OptionKind::kChoice:
      if (std::find(option.choices.begin(), option.choices.end(), value) == option.choices.end()) {
        return false;
      }
      option.text(*config) = value;
      return true;
    case OptionKind::kBoolean:
      if (value != "true" && value != "false") return false;
      option.boolean(*config) = value == "true";
      return true;
    case OptionKind::kInteger: {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (error != std::errc() || end != value.data() + value.size()) return false;
      if (number < option.min || number > option.max) return false;
      option.integer(*config) = number;
      return true;
    }
  }
  return false;
}

}  // namespace

std::string Option::Range() const {
  switch (kind) {
    case OptionKind::kText:
      return "text";
    case OptionKind::kBoolean:
      return "true or false";
    case OptionKind::kChoice:
      return fmt::format("one of {}", fmt::join(choices, ", "));
    case OptionKind::kInteger:
      return fmt::format("{} to {} {}", min, max, unit);
  }
  return "";
}

std::string Option::Get(const Config& config) const {
  auto& place = const_cast<Config&>(config);  // read only here
  if (kind == OptionKind::kInteger) return std::to_string(integer(place));
  if (kind == OptionKind::kBoolean) return boolean(place) ? "true" : "false";
  return text(place);
}

std::string Option::Default() const { return Get(Config()); }

const std::vector<Option>& AllOptions() {
  static const auto* table = new std::vector<Option>(MakeTable());
  return *table;
}

const Option* FindOption(std::string_view key) {
  for (const Option& option : AllOptions()) {
    if (option.key == key) return &option;
  }
  return nullptr;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string_view NearestKey(std::string_view key) {
  const auto& table = AllOptions();
  const auto nearest =
      std::min_element(table.begin(), table.end(), [&](const Option& a, const Option& b) {
        return EditDistance(a.key, key) < EditDistance(b.key, key);
      });
  return nearest->key;
}

Status SetOption(std::string_view key, std::string_view value, std::string_view source,
                 Config* config) {
  constexpr std::string_view kKafka = "kafka.";
  if (key.substr(0, kKafka.size()) == kKafka && key.size() > kKafka.size()) {
    config->bus.kafka[std::string(key.substr(kKafka.size()))] = value;
    return OkStatus();
  }
  const Option* option = FindOption(key);
  if (option == nullptr) {
    return InvalidArgumentError(fmt::format("{}: there is no option \"{}\"; did you mean \"{}\"?",
                                            source, key, NearestKey(key)));
  }
  if (ParseValue(*option, value, config)) return OkStatus();
  const std::string preset = option->Default();
  return InvalidArgumentError(
      fmt::format("{}: {} = \"{}\" is not possible: {}; leave it out for the default{}{}", source,
                  key, value, option->Range(), preset.empty() ? "" : ", ", preset));
}

std::string DescribeOptions() {
  std::string text;
  std::string_view group;
  for (const Option& option : AllOptions()) {
    if (option.group() != group) {
      group = option.group();
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", group);
    }
    const std::string preset = option.Default();
    text += fmt::format("  {:<30}{:<26} {}\n      {}; default: {}\n", option.key, option.flag,
                        option.help, option.Range(), preset.empty() ? "none" : preset);
  }
  text +=
      "\n[kafka]\n  kafka.<setting>               --kafka <setting>=<value>    any librdkafka "
      "setting, verbatim (TLS, SASL)\n";
  return text;
}

}  // namespace baton::config
