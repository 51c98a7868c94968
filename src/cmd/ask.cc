#include "src/cmd/ask.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace baton::cmd {
namespace {

constexpr Nanos kPoll = std::chrono::milliseconds(50);
constexpr Nanos kFlush = std::chrono::seconds(10);

struct Open {
  Question question;
  TextStream stream;
};

class Asker {
 public:
  Asker(const AskOptions& options, client::Client* client, std::FILE* out, std::FILE* err)
      : options_(options), client_(client), out_(out), err_(err), heard_(RealClock().Now()) {}

  Result<AskCounts> Run(const std::function<Result<std::optional<Question>>()>& next) {
    bool more = true;
    while (more || !open_.empty()) {
      if (options_.stop && options_.stop()) return Cancel();
      if (more && open_.size() < options_.window) {
        ASSIGN_OR_RETURN(std::optional<Question> question, next());
        more = question.has_value();
        if (more) BATON_RETURN_IF_ERROR(Submit(std::move(*question)));
        BATON_RETURN_IF_ERROR(Listen(Nanos::zero()));
      } else {
        BATON_RETURN_IF_ERROR(Listen(kPoll));
      }
      BATON_RETURN_IF_ERROR(CheckSilence());
    }
    return counts_;
  }

 private:
  Status Submit(Question question) {
    for (;;) {
      const Status status = client_->Submit(question.request);
      if (status.code() != StatusCode::kResourceExhausted) {
        BATON_RETURN_IF_ERROR(status);
        break;
      }
      BATON_RETURN_IF_ERROR(Listen(kPoll));
      BATON_RETURN_IF_ERROR(CheckSilence());
    }
    if (open_.empty()) heard_ = RealClock().Now();
    const Identity id = question.request.id;
    open_.emplace(id, Open{std::move(question), {}});
    return OkStatus();
  }

  Status Listen(Nanos timeout) {
    ASSIGN_OR_RETURN(const std::optional<client::Received> received, client_->Poll(timeout));
    if (!received.has_value()) return OkStatus();
    if (const auto* tokens = std::get_if<wire::TokenRecord>(&*received)) {
      OnTokens(*tokens);
    } else {
      OnResult(std::get<wire::ResultRecord>(*received));
    }
    return OkStatus();
  }

  void OnTokens(const wire::TokenRecord& record) {
    const auto it = open_.find(record.id);
    if (it == open_.end() || options_.rows) return;
    heard_ = RealClock().Now();
    Write(it->second.stream.Add(record));
  }

  void OnResult(const wire::ResultRecord& result) {
    const auto it = open_.find(result.id);
    if (it == open_.end()) return;
    heard_ = RealClock().Now();
    const bool ok =
        result.kind != wire::ResultKind::kConflict && result.outcome == wire::Outcome::kOk;
    if (options_.rows) {
      Write(batch::RowOfResult(it->second.question.line, result, RealClock().WallNow().ms / 1000)
                .json +
            "\n");
    } else if (ok) {
      Write(it->second.stream.Finish(result.output.text) + "\n");
    } else {
      const std::string why = result.error.has_value() ? result.error->message : "no reason given";
      std::fprintf(err_, "baton submit: request %s failed: %s\n", result.id.Key().c_str(),
                   why.c_str());
    }
    ++counts_.answered;
    counts_.failed += ok ? 0 : 1;
    open_.erase(it);
  }

  void Write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), out_);
    std::fflush(out_);
  }

  Status CheckSilence() const {
    if (open_.empty() || RealClock().Now() - heard_ < options_.silence) return OkStatus();
    return DeadlineExceededError(fmt::format(
        "no answer for {} s; {} requests wait, among them {}. Do the controller and the instances "
        "run?",
        std::chrono::duration_cast<std::chrono::seconds>(options_.silence).count(), open_.size(),
        open_.begin()->first.Key()));
  }

  Status Cancel() {
    for (const auto& [id, open] : open_) IgnoreStatus(client_->Cancel(id));
    IgnoreStatus(client_->Flush(kFlush));
    return CancelledError(fmt::format("stopped; {} requests cancelled", open_.size()));
  }

  const AskOptions& options_;
  client::Client* const client_;
  std::FILE* const out_;
  std::FILE* const err_;
  std::unordered_map<Identity, Open> open_;  // at most options_.window
  MonoTime heard_;
  AskCounts counts_;
};

}  // namespace

std::string TextStream::Add(const wire::TokenRecord& record) {
  if (record.attempt < attempt_) return "";
  if (record.attempt > attempt_) {
    attempt_ = record.attempt;
    next_sequence_ = 0;
    text_.clear();
  }
  if (record.sequence < next_sequence_) return "";  // a repeat
  next_sequence_ = record.sequence + 1;
  text_ += record.text;
  std::string fresh = Finish(text_);
  shown_ = std::max(shown_, text_.size());
  return fresh;
}

std::string TextStream::Finish(const std::string& whole) const {
  return whole.size() > shown_ ? whole.substr(shown_) : "";
}

Result<AskCounts> AskAll(const std::function<Result<std::optional<Question>>()>& next,
                         const AskOptions& options, client::Client* client, std::FILE* out,
                         std::FILE* err) {
  return Asker(options, client, out, err).Run(next);
}

}  // namespace baton::cmd
