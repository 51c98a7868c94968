#include "src/batch/job.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <unordered_map>

#include "src/base/rng.h"
#include "src/batch/intake.h"
#include "src/batch/job_file.h"
#include "src/batch/rows.h"

namespace baton::batch {
namespace {

namespace fs = std::filesystem;

constexpr Nanos kPollTimeout = std::chrono::milliseconds(100);
constexpr int kDeliveriesMax = 3;         // of one request that the bus did not take
constexpr size_t kJobNameBytesMax = 200;  // leaves room for line and hash in a request id
constexpr int kStrictNotesMax = 20;

struct InFlight {
  LineInfo line;
  wire::Request request;  // kept for another delivery
  uint64_t bytes = 0;
  int deliveries = 0;
  MonoTime since;
};

std::string DefaultErrors(const std::string& results) {
  fs::path path(results);
  const std::string extension = path.extension() == ".jsonl" ? ".jsonl" : "";
  if (!extension.empty()) path.replace_extension();
  return path.string() + ".errors" + extension;
}

class Job {
  using Row = FinishedLines::Row;

 public:
  Job(const JobOptions& options, client::Client& client, const Clock& clock, ProgressSink& sink)
      : options_(options),
        errors_path_(options.errors.empty() ? DefaultErrors(options.results) : options.errors),
        job_path_(options.results + ".job"),
        client_(client),
        clock_(clock),
        sink_(sink),
        finished_(options.lines_max),
        started_(clock.Now()),
        last_answer_(started_) {}

  Result<Summary> Run() {
    BATON_RETURN_IF_ERROR(CheckOptions());
    if (options_.strict) BATON_RETURN_IF_ERROR(CheckWholeInput());
    BATON_RETURN_IF_ERROR(OpenOutputs());
    BATON_RETURN_IF_ERROR(RememberJob());
    ASSIGN_OR_RETURN(intake_, Intake::Open(IntakeOptionsOf(summary_.job)));
    const Status worked = Work();
    const Status closed = CloseOutputs();
    BATON_RETURN_IF_ERROR(worked);
    BATON_RETURN_IF_ERROR(closed);
    summary_.seconds = Seconds(clock_.Now() - started_);
    return summary_;
  }

 private:
  // ----------------------------------------------------------------------------- start

  Status CheckOptions() {
    if (options_.window_requests == 0 || options_.window_bytes == 0) {
      return InvalidArgumentError("the window must let at least one request through");
    }
    if (options_.job.size() > kJobNameBytesMax ||
        options_.job.find_first_of("\r\n") != std::string::npos) {
      return InvalidArgumentError(
          fmt::format("job: a name is one line of at most {} bytes", kJobNameBytesMax));
    }
    struct stat input {};
    if (::stat(options_.input.c_str(), &input) != 0) {
      return NotFoundError(options_.input + ": no such file, or it cannot be looked at");
    }
    if (S_ISDIR(input.st_mode)) {
      return InvalidArgumentError(options_.input + " is a directory, not a file");
    }
    input_bytes_ = S_ISREG(input.st_mode) ? static_cast<uint64_t>(input.st_size) : 0;
    for (const std::string& output : {options_.results, errors_path_, job_path_}) {
      struct stat about {};
      if (::stat(output.c_str(), &about) != 0) continue;
      if (about.st_dev == input.st_dev && about.st_ino == input.st_ino) {
        return InvalidArgumentError(output + ": the input itself cannot be an output");
      }
    }
    if (options_.strict && !S_ISREG(input.st_mode)) {
      return InvalidArgumentError(options_.input +
                                  ": strict reads the input twice, so a pipe won't do");
    }
    return OkStatus();
  }

  IntakeOptions IntakeOptionsOf(const std::string& job) const {
    return {.path = options_.input,
            .job = job,
            .line_bytes_max = options_.line_bytes_max,
            .lines_max = options_.lines_max,
            .translate = options_.translate};
  }

  Status CheckWholeInput() {
    ASSIGN_OR_RETURN(const auto intake, Intake::Open(IntakeOptionsOf("strict")));
    uint64_t lines = 0;
    uint64_t faults = 0;
    for (;;) {
      ASSIGN_OR_RETURN(const std::optional<Item> item, intake->Next());
      if (!item) break;
      ++lines;
      const auto* fault = std::get_if<LineFault>(&item->what);
      if (fault == nullptr) continue;
      if (++faults <= kStrictNotesMax) {
        sink_.Note(fmt::format("{}:{}: {}: {}", options_.input, item->line.number, fault->code,
                               fault->message));
      }
    }
    if (lines == 0) return InvalidArgumentError(options_.input + ": empty_file: no lines");
    if (faults == 0) return OkStatus();
    return InvalidArgumentError(fmt::format("{}: {} of {} lines are wrong; nothing was run",
                                            options_.input, faults, lines));
  }

  Status OpenOutputs() {
    ASSIGN_OR_RETURN(results_, RowFile::Open(options_.results));
    ASSIGN_OR_RETURN(errors_, RowFile::Open(errors_path_));
    if (results_->SameFileAs(*errors_)) {
      return InvalidArgumentError("results and errors need a file each");
    }
    if (options_.overwrite) {
      BATON_RETURN_IF_ERROR(results_->Clear());
      return errors_->Clear();
    }
    BATON_RETURN_IF_ERROR(results_->Recover(
        [this](const RowName& name) { return finished_.Add(name, Row::kResult); }));
    return errors_->Recover(
        [this](const RowName& name) { return finished_.Add(name, Row::kError); });
  }

  // A name and a deadline that hold until the job is finished, however often it is killed.
  Status RememberJob() {
    JobFile file;
    const std::optional<JobFile> before =
        options_.overwrite ? std::nullopt : ReadJobFile(job_path_);
    if (before && (options_.job.empty() || options_.job == before->job)) {
      file = *before;
    } else {
      file.job = options_.job.empty() ? "batch-" + RandomHexId() : options_.job;
      if (options_.deadline > Millis(0)) {
        file.deadline_ms = (clock_.WallNow() + options_.deadline).ms;
      }
    }
    summary_.job = file.job;
    deadline_ms_ = file.deadline_ms;
    return WriteJobFile(job_path_, file);
  }

  // ----------------------------------------------------------------------------- work

  int Interrupts() const {
    return options_.interrupts == nullptr ? 0 : options_.interrupts->load();
  }

  Status Work() {
    for (;;) {
      if (Interrupts() >= 2) return Abandon();
      if (Interrupts() == 1) Drain();
      BATON_RETURN_IF_ERROR(FillWindow());
      if (in_flight_.empty() && !pending_ && (at_end_ || draining_)) break;
      BATON_RETURN_IF_ERROR(TakeAnswer());
      BATON_RETURN_IF_ERROR(CheckStall());
      sink_.Update(ProgressNow());
    }
    summary_.interrupted = draining_ && (!at_end_ || summary_.not_run > 0);
    return OkStatus();
  }

  void Drain() {
    if (draining_) return;
    draining_ = true;
    sink_.Note(fmt::format("interrupted: waiting for {} running lines", in_flight_.size()));
    if (pending_) {
      ++summary_.not_run;
      pending_.reset();
      at_end_ = false;
    }
  }

  // The cluster may well finish what is in flight; the next run is given those answers.
  Status Abandon() {
    summary_.not_run += in_flight_.size() + (pending_ ? 1 : 0);
    in_flight_.clear();
    pending_.reset();
    summary_.interrupted = true;
    return OkStatus();
  }

  bool WindowOpen() const {
    return in_flight_.size() < options_.window_requests &&
           (in_flight_.empty() || bytes_in_flight_ < options_.window_bytes);
  }

  Status FillWindow() {
    while (!draining_ && WindowOpen() && Interrupts() == 0) {
      if (!pending_) {
        if (at_end_) return OkStatus();
        BATON_RETURN_IF_ERROR(ReadLine());
        continue;
      }
      bool accepted = false;
      BATON_RETURN_IF_ERROR(Send(*pending_, &accepted));
      if (!accepted) return OkStatus();
      pending_.reset();
    }
    return OkStatus();
  }

  // Takes one line in: to nothing, to an error row, or to pending_.
  Status ReadLine() {
    ASSIGN_OR_RETURN(std::optional<Item> item, intake_->Next());
    if (!item) {
      at_end_ = true;
      return OkStatus();
    }
    ++summary_.in;
    ASSIGN_OR_RETURN(const Row row, finished_.Find(item->line.number, item->content_hash));
    if (row != Row::kNone) {
      ++summary_.skipped;
      if (row == Row::kError) ++summary_.skipped_failed;
      bytes_skipped_ += item->bytes;
      return OkStatus();
    }
    if (const auto* fault = std::get_if<LineFault>(&item->what)) {
      bytes_done_ += item->bytes;
      ++summary_.error;
      sink_.Update(ProgressNow());
      return errors_->Append(FaultRow(item->line, *fault));
    }
    wire::Request& request = std::get<wire::Request>(item->what);
    request.id = {options_.tenant, item->line.request_id};
    request.job = summary_.job;
    request.priority = options_.priority;
    request.deadline_ms = deadline_ms_;
    pending_ = InFlight{
        .line = std::move(item->line), .request = std::move(request), .bytes = item->bytes};
    return OkStatus();
  }

  // `accepted` stays false when the producer's queue is full.
  Status Send(InFlight& request, bool* accepted) {
    const Status sent = client_.Submit(request.request);
    if (sent.code() == StatusCode::kResourceExhausted) return OkStatus();
    *accepted = true;
    if (sent.code() == StatusCode::kInvalidArgument) {
      ++summary_.error;
      bytes_done_ += request.bytes;
      return errors_->Append(FaultRow(request.line, {.code = "invalid_value",
                                                     .message = sent.message(),
                                                     .param = {},
                                                     .custom_id = request.line.custom_id,
                                                     .body_refused = true}));
    }
    BATON_RETURN_IF_ERROR(sent.WithContext("sending line " + std::to_string(request.line.number)));
    ++request.deliveries;
    request.since = clock_.Now();
    if (in_flight_.empty()) last_answer_ = request.since;
    bytes_in_flight_ += request.bytes;
    std::string id = request.line.request_id;
    in_flight_.emplace(std::move(id), std::move(request));
    return OkStatus();
  }

  Status TakeAnswer() {
    ASSIGN_OR_RETURN(const std::optional<client::Received> received, client_.Poll(kPollTimeout));
    if (!received) return OkStatus();
    const auto* result = std::get_if<wire::ResultRecord>(&*received);
    if (result == nullptr || result->id.tenant != options_.tenant) return OkStatus();
    // Unknown: another job's, or a repeat of what has its row already.
    const auto found = in_flight_.find(result->id.request_id);
    if (found == in_flight_.end()) return OkStatus();
    last_answer_ = clock_.Now();
    InFlight request = std::move(found->second);
    in_flight_.erase(found);
    bytes_in_flight_ -= request.bytes;
    if (!NotDelivered(*result)) return WriteAnswer(request, *result);
    if (draining_) {
      ++summary_.not_run;
      return OkStatus();
    }
    if (request.deliveries >= kDeliveriesMax) return WriteAnswer(request, *result);
    return Resend(std::move(request));
  }

  // The client itself makes a record of epoch 0 when the bus did not take a request.
  static bool NotDelivered(const wire::ResultRecord& result) {
    return result.controller_epoch == ControllerEpoch(0) &&
           result.outcome == wire::Outcome::kError && result.error && !result.error->client_fault &&
           result.error->code != StatusCode::kInvalidArgument;
  }

  Status Resend(InFlight request) {
    bool accepted = false;
    BATON_RETURN_IF_ERROR(Send(request, &accepted));
    if (accepted) return OkStatus();
    wire::ResultRecord refused;
    refused.outcome = wire::Outcome::kError;
    refused.error = {.code = StatusCode::kUnavailable, .message = "the bus takes no requests"};
    return WriteAnswer(request, refused);
  }

  Status WriteAnswer(const InFlight& request, const wire::ResultRecord& result) {
    LineInfo line = request.line;
    if (line.model.empty() && result.provenance) line.model = result.provenance->model;
    const ResultRow row = RowOfResult(line, result, clock_.WallNow().ms / 1000);
    BATON_RETURN_IF_ERROR((row.is_error ? errors_ : results_)->Append(row.json));
    bytes_done_ += request.bytes;
    Count(result);
    return OkStatus();
  }

  void Count(const wire::ResultRecord& result) {
    if (result.kind == wire::ResultKind::kConflict) {
      ++summary_.error;
      return;
    }
    switch (result.outcome) {
      case wire::Outcome::kOk:
        ++summary_.ok;
        summary_.prompt_tokens += result.output.prompt_tokens;
        summary_.completion_tokens += result.output.tokens.size();
        break;
      case wire::Outcome::kError:
        ++summary_.error;
        break;
      case wire::Outcome::kCancelled:
        ++summary_.cancelled;
        break;
      case wire::Outcome::kExpired:
        ++summary_.expired;
        break;
      case wire::Outcome::kDead:
        ++summary_.dead;
        break;
    }
  }

  Status CheckStall() {
    const MonoTime now = clock_.Now();
    if (in_flight_.empty() || now - last_answer_ < options_.stall_timeout) return OkStatus();
    const InFlight* oldest = nullptr;
    for (const auto& [id, request] : in_flight_) {
      if (oldest == nullptr || request.since < oldest->since) oldest = &request;
    }
    return DeadlineExceededError(fmt::format(
        "no answer for {:.0f} s; line {} (custom_id {}) has waited longest of {}, for {:.0f} s; "
        "run the job again to resume",
        Seconds(now - last_answer_), oldest->line.number, oldest->line.custom_id, in_flight_.size(),
        Seconds(now - oldest->since)));
  }

  // ----------------------------------------------------------------------------- end

  Status CloseOutputs() {
    BATON_RETURN_IF_ERROR(results_->Sync());
    BATON_RETURN_IF_ERROR(errors_->Sync());
    std::error_code ignored;
    if (errors_->bytes() == 0 && fs::is_regular_file(errors_path_, ignored)) {
      fs::remove(errors_path_, ignored);
    }
    if (at_end_ && in_flight_.empty() && summary_.not_run == 0) fs::remove(job_path_, ignored);
    return OkStatus();
  }

  static double Seconds(Nanos nanos) { return std::chrono::duration<double>(nanos).count(); }

  Progress ProgressNow() const {
    Progress now;
    const uint64_t failed = summary_.error + summary_.cancelled + summary_.expired + summary_.dead;
    now.done = summary_.ok + failed + summary_.skipped;
    now.failed = failed + summary_.skipped_failed;
    now.in_flight = in_flight_.size();
    now.completion_tokens = summary_.completion_tokens;
    now.seconds = Seconds(clock_.Now() - started_);
    now.draining = draining_;
    if (now.seconds <= 0) return now;
    now.tokens_per_s = static_cast<double>(summary_.completion_tokens) / now.seconds;
    const uint64_t behind = bytes_done_ + bytes_skipped_;
    if (bytes_done_ > 0 && input_bytes_ >= behind) {
      now.seconds_left = now.seconds * static_cast<double>(input_bytes_ - behind) /
                         static_cast<double>(bytes_done_);
    }
    return now;
  }

  const JobOptions& options_;
  const std::string errors_path_;
  const std::string job_path_;
  client::Client& client_;
  const Clock& clock_;
  ProgressSink& sink_;

  std::unique_ptr<RowFile> results_;
  std::unique_ptr<RowFile> errors_;
  std::unique_ptr<Intake> intake_;
  FinishedLines finished_;
  int64_t deadline_ms_ = 0;

  std::unordered_map<std::string, InFlight> in_flight_;
  std::optional<InFlight> pending_;  // read, not taken by the producer yet
  uint64_t bytes_in_flight_ = 0;
  bool at_end_ = false;
  bool draining_ = false;

  const MonoTime started_;
  MonoTime last_answer_;
  uint64_t input_bytes_ = 0;  // 0: unknown
  uint64_t bytes_done_ = 0;
  uint64_t bytes_skipped_ = 0;
  Summary summary_;
};

}  // namespace

Result<Summary> RunBatch(const JobOptions& options, client::Client& client, const Clock& clock,
                         ProgressSink& progress) {
  return Job(options, client, clock, progress).Run();
}

std::string SummaryText(const Summary& s) {
  std::string text =
      fmt::format("batch {}: {} in, {} ok, {} error, {} cancelled, {} expired, {} dead", s.job,
                  s.in, s.ok, s.error, s.cancelled, s.expired, s.dead);
  if (s.skipped > 0) text += fmt::format(", {} finished before", s.skipped);
  if (s.not_run > 0) text += fmt::format(", {} not run", s.not_run);
  const double rate = s.seconds > 0 ? static_cast<double>(s.completion_tokens) / s.seconds : 0;
  text += fmt::format("; {} prompt and {} completion tokens in {:.1f} s, {:.0f} tokens/s",
                      s.prompt_tokens, s.completion_tokens, s.seconds, rate);
  if (s.interrupted) text += "; interrupted, run it again to resume";
  return text;
}

int ExitStatus(const Summary& s) {
  if (s.interrupted) return kExitInterrupted;
  const uint64_t failed = s.error + s.cancelled + s.expired + s.dead + s.skipped_failed;
  return failed == 0 ? kExitAllOk : kExitSomeFailed;
}

}  // namespace baton::batch
