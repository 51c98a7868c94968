// baton submit
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>

#include "src/base/rng.h"
#include "src/cmd/ask.h"
#include "src/cmd/broker.h"
#include "src/cmd/commands.h"
#include "src/cmd/signals.h"
#include "src/launch/exit_codes.h"

namespace baton::cmd {
namespace {

constexpr const char* kPurpose = "Send requests to a running cluster and print the answers.";
constexpr const char* kMore =
    "With --prompt, prints the answer's text. With --input, reads OpenAI batch lines (- is stdin)\n"
    "and prints one row for each, in order of completion. For large files and for resuming use\n"
    "`baton batch`. Ctrl-C cancels what runs.\n\n"
    "Examples:\n"
    "  baton submit --bootstrap 127.0.0.1:9092 --prompt \"What is a baton?\" --stream\n"
    "  baton submit --bootstrap 127.0.0.1:9092 --input prompts.jsonl > answers.jsonl\n";

struct SubmitFlags {
  ConfigFlags config;
  std::string prompt;
  std::string input;
  bool raw = false;
  bool stream = false;
  int64_t max_tokens = 128;
  double temperature = 0;
  int64_t timeout_s = 300;
};

// A JSON string of any text; bytes that JSON forbids become escapes.
std::string JsonString(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      json += c;
    }
  }
  return json + "\"";
}

void Address(const SubmitFlags& flags, const std::string& tenant, const std::string& id,
             wire::Request* request) {
  request->id = {tenant, id};
  request->deadline_ms = (RealClock().WallNow() + Millis(flags.timeout_s * 1000)).ms;
}

Question PromptQuestion(const SubmitFlags& flags, const std::string& tenant) {
  Question question;
  wire::Request& request = question.request;
  if (flags.raw) {
    request.prompt_text = flags.prompt;
  } else {
    request.chat_messages_json =
        fmt::format(R"([{{"role":"user","content":{}}}])", JsonString(flags.prompt));
  }
  request.max_tokens = static_cast<uint32_t>(flags.max_tokens);
  request.sampling.temperature = static_cast<float>(flags.temperature);
  request.stream = flags.stream;
  Address(flags, tenant, RandomHexId(), &request);
  return question;
}

// Questions out of a file of OpenAI batch lines. A wrong line is printed as its error row.
class LineQuestions {
 public:
  LineQuestions(const SubmitFlags& flags, std::string tenant, std::istream* input)
      : flags_(flags), tenant_(std::move(tenant)), input_(input), job_(RandomHexId()) {}

  std::optional<Question> Next() {
    std::string text;
    while (std::getline(*input_, text)) {
      ++number_;
      if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
      if (std::optional<Question> question = Parse(text)) return question;
    }
    return std::nullopt;
  }
  uint64_t refused() const { return refused_; }

 private:
  std::optional<Question> Parse(const std::string& text) {
    batch::TranslateOptions options;
    auto line = batch::TranslateLine(text, options);
    Question question;
    question.line.number = number_;
    question.line.request_id = batch::MakeRequestId(job_, number_, std::hash<std::string>()(text));
    if (const auto* fault = std::get_if<batch::LineFault>(&line)) {
      question.line.custom_id = fault->custom_id;
      std::printf("%s\n", batch::FaultRow(question.line, *fault).c_str());
      ++refused_;
      return std::nullopt;
    }
    auto& good = std::get<batch::BatchLine>(line);
    question.request = std::move(good.request);
    question.line.custom_id = good.custom_id;
    question.line.endpoint = good.endpoint;
    question.line.model = question.request.model;
    Address(flags_, tenant_, question.line.request_id, &question.request);
    return question;
  }

  const SubmitFlags& flags_;
  const std::string tenant_;
  std::istream* const input_;
  const std::string job_;
  uint64_t number_ = 0;
  uint64_t refused_ = 0;
};

Result<std::unique_ptr<client::Client>> NewClient(const config::Config& config, bool stream,
                                                  bus::Bus* bus) {
  client::Options options;
  options.topics = wire::Topics(config.bus.prefix);
  options.read_tokens = stream;
  return client::Client::Create(bus, options);
}

Result<uint64_t> AskAndPrint(const SubmitFlags& flags, const config::Config& config) {
  BATON_RETURN_IF_ERROR(StartLogAndReachBroker(config, "submit"));
  std::ifstream file;
  if (!flags.input.empty() && flags.input != "-") {
    file.open(ResolvePath(flags.input));
    if (!file) {
      return NotFoundError(fmt::format("cannot read {}: {}", flags.input, strerror(errno)));
    }
  }
  ASSIGN_OR_RETURN(const auto bus, ConnectBus(config, "submit"));
  ASSIGN_OR_RETURN(const auto client, NewClient(config, flags.stream, bus.get()));
  AskOptions options;
  options.rows = !flags.input.empty();
  options.silence = std::chrono::seconds(flags.timeout_s);
  options.stop = [] { return StopRequested().load(); };
  const std::string& tenant = config.batch.tenant;
  LineQuestions lines(flags, tenant, flags.input == "-" ? &std::cin : &file);
  bool asked = false;
  const auto next = [&]() -> Result<std::optional<Question>> {
    if (options.rows) return lines.Next();
    if (std::exchange(asked, true)) return std::optional<Question>();
    return std::optional<Question>(PromptQuestion(flags, tenant));
  };
  ASSIGN_OR_RETURN(const AskCounts counts, AskAll(next, options, client.get(), stdout, stderr));
  return counts.failed + lines.refused();
}

int RunSubmit(const SubmitFlags& flags) {
  Result<config::Config> config = flags.config.Load();
  if (!config.ok()) return Fail("baton submit", config.status());
  if (flags.prompt.empty() == flags.input.empty()) {
    return Fail("baton submit", InvalidArgumentError("give one of --prompt TEXT and --input FILE"));
  }
  if (flags.stream && !flags.input.empty()) {
    return Fail("baton submit", InvalidArgumentError("--stream goes with --prompt only"));
  }
  const Result<uint64_t> failed = AskAndPrint(flags, *config);
  if (!failed.ok()) return Fail("baton submit", failed.status());
  return *failed == 0 ? launch::kExitOk : launch::kExitFailed;
}

}  // namespace

void AddSubmit(CLI::App* app, Commands* commands) {
  CLI::App* command = app->add_subcommand("submit", kPurpose);
  command->footer(kMore);
  auto flags = std::make_shared<SubmitFlags>();
  const auto add = [&](const char* flag, auto* value, const char* help) {
    return command->add_option(flag, *value, help)->type_name("")->group("request");
  };
  add("--prompt", &flags->prompt, "one user message");
  add("--input", &flags->input, "OpenAI batch lines; - is stdin");
  command->add_flag("--raw", flags->raw, "--prompt without the model's chat template")
      ->group("request");
  command->add_flag("--stream", flags->stream, "print the text as it is made")->group("request");
  add("--max-tokens", &flags->max_tokens, "of the answer (1 to 1048576 tokens; default 128)")
      ->check(CLI::Range(1, 1'048'576));
  add("--temperature", &flags->temperature, "0 is greedy (0 to 2; default 0)")
      ->check(CLI::Range(0.0, 2.0));
  add("--timeout-s", &flags->timeout_s, "deadline of each request (1 to 86400 s; default 300)")
      ->check(CLI::Range(1, 86'400));
  flags->config.Add(command, {"bus", "log"});
  commands->all.emplace_back(command, [flags] { return RunSubmit(*flags); });
}

}  // namespace baton::cmd
