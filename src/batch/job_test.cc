#include "src/batch/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "src/batch/fake_client.h"

namespace baton::batch {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::HasSubstr;

class RecordingSink : public ProgressSink {
 public:
  void Update(const Progress& progress) override { last = progress; }
  void Note(const std::string& text) override { notes += text + "\n"; }
  Progress last;
  std::string notes;
};

std::string CompletionLine(const std::string& id, const std::string& prompt) {
  return Json{{"custom_id", id},
              {"method", "POST"},
              {"url", "/v1/completions"},
              {"body", {{"model", "m"}, {"prompt", prompt}}}}
      .dump();
}

std::vector<std::string> Lines(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class JobTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(std::getenv("TEST_TMPDIR")) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directories(folder_);
    options_.input = folder_ / "in.jsonl";
    options_.results = folder_ / "out.jsonl";
    options_.tenant = "acme";
  }

  fs::path ErrorsPath() const { return folder_ / "out.errors.jsonl"; }
  fs::path JobPath() const { return folder_ / "out.jsonl.job"; }

  void WriteInput(const std::string& text) const {
    std::ofstream(options_.input, std::ios::binary) << text;
  }
  void WriteLines(int count) const {
    std::string text;
    for (int i = 1; i <= count; ++i) {
      text += CompletionLine("id-" + std::to_string(i), "prompt " + std::to_string(i)) + "\n";
    }
    WriteInput(text);
  }

  Result<Summary> Run(FakeClient& client) { return RunBatch(options_, client, clock_, sink_); }
  Result<Summary> Run() {
    FakeClient client(&cluster_, &clock_);
    return Run(client);
  }
  Summary MustRun() {
    const Result<Summary> summary = Run();
    EXPECT_TRUE(summary.ok()) << summary.status().ToString();
    return summary.ok() ? *summary : Summary{};
  }

  // The rows without their times, which differ between runs.
  static std::multiset<std::string> Rows(const fs::path& path) {
    std::multiset<std::string> rows;
    for (const std::string& line : Lines(path)) {
      Json row = Json::parse(line);
      if (row["response"].is_object()) row["response"]["body"].erase("created");
      rows.insert(row.dump());
    }
    return rows;
  }

  fs::path folder_;
  ManualClock clock_;
  FakeCluster cluster_;
  RecordingSink sink_;
  JobOptions options_;
};

// ------------------------------------------------------------------------------- rows

TEST_F(JobTest, EveryLineGetsOneRowAndTheSumsAgree) {
  WriteInput(CompletionLine("a", "hello") + "\n" + CompletionLine("b", "FAIL") + "\n" +
             CompletionLine("c", "CANCEL") + "\n" + CompletionLine("d", "EXPIRE") + "\n" +
             CompletionLine("e", "KILL") + "\nnonsense\n" + CompletionLine("a", "again") + "\n");
  const Summary summary = MustRun();
  EXPECT_EQ(summary.in, 7u);
  EXPECT_EQ(summary.ok, 1u);
  EXPECT_EQ(summary.error, 3u);
  EXPECT_EQ(summary.cancelled, 1u);
  EXPECT_EQ(summary.expired, 1u);
  EXPECT_EQ(summary.dead, 1u);
  EXPECT_EQ(ExitStatus(summary), kExitSomeFailed);
  EXPECT_EQ(Lines(options_.results).size(), 1u);
  EXPECT_EQ(Lines(ErrorsPath()).size(), 6u);
  EXPECT_FALSE(fs::exists(JobPath()));
  EXPECT_THAT(SummaryText(summary), HasSubstr("7 in, 1 ok, 3 error, 1 cancelled"));
}

TEST_F(JobTest, AJobWithoutErrorsLeavesNoErrorFile) {
  WriteLines(3);
  EXPECT_EQ(ExitStatus(MustRun()), kExitAllOk);
  EXPECT_FALSE(fs::exists(ErrorsPath()));
}

// Scenario 36.
TEST_F(JobTest, EveryBrokenLineCostsOneRowWithItsNumberAndTheRestRuns) {
  const std::string big = CompletionLine("big", std::string(2'000'000, 'x'));
  const auto with = [](const std::string& id, const char* field) {
    return R"({"custom_id":")" + id + R"(","method":"POST","url":"/v1/completions","body":)" +
           R"({"prompt":"x",)" + field + "}}";
  };
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"\xef\xbb\xbf" + CompletionLine("bom", "x"), ""},
      {CompletionLine("crlf", "x") + "\r", ""},
      {"", "invalid_json_line"},
      {R"({"custom_id":")"
       "\xc3("
       R"("})",
       "invalid_json_line"},
      {"null", "invalid_json_line"},
      {"[]", "invalid_json_line"},
      {with("inf", R"("temperature":1e999)"), "invalid_json_line"},
      {R"({"method":"POST","url":"/v1/completions","body":{"prompt":"x"}})",
       "missing_required_parameter"},
      {CompletionLine("", "x"), "invalid_value"},
      {CompletionLine("crlf", "y"), "duplicate_custom_id"},
      {R"({"custom_id":"m","method":"GET","url":"/v1/completions","body":{"prompt":"x"}})",
       "invalid_method"},
      {R"({"custom_id":"u","method":"POST","url":"/v1/embeddings","body":{"prompt":"x"}})",
       "url_mismatch"},
      {with("s", R"("stream":true)"), "unsupported_parameter"},
      {with("n", R"("n":2)"), "unsupported_parameter"},
      {big, "invalid_json_line"},
      {CompletionLine("last", "x"), ""}};
  std::string text;
  for (const auto& [line, code] : lines) text += line + "\n";
  text.pop_back();  // no final newline
  WriteInput(text);
  const Summary summary = MustRun();
  EXPECT_EQ(summary.in, lines.size());
  EXPECT_EQ(summary.ok, 3u);
  std::map<size_t, std::string> codes;
  for (const std::string& row : Lines(ErrorsPath())) {
    const Json json = Json::parse(row);
    const Json error = json["error"].is_null() ? json["response"]["body"]["error"] : json["error"];
    codes[error["line"]] = error["code"];
    EXPECT_THAT(error["message"].get<std::string>(),
                HasSubstr("line " + std::to_string(error["line"].get<int>()) + ": "));
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(codes.contains(i + 1) ? codes[i + 1] : "", lines[i].second) << "line " << i + 1;
  }
}

TEST_F(JobTest, TheExamplesRunAndTheirBrokenLineIsNamed) {
  options_.input = "examples/prompts.jsonl";
  const Summary summary = MustRun();
  EXPECT_EQ(summary.in, 24u);
  EXPECT_EQ(summary.ok, 23u);
  EXPECT_EQ(summary.error, 1u);
}

TEST_F(JobTest, StrictRefusesTheWholeFileBeforeAnythingRuns) {
  WriteInput(CompletionLine("a", "x") + "\nnull\n" + CompletionLine("a", "y") + "\n");
  options_.strict = true;
  const Result<Summary> summary = Run();
  EXPECT_EQ(summary.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(summary.status().message(), HasSubstr("2 of 3 lines are wrong; nothing was run"));
  EXPECT_THAT(sink_.notes, HasSubstr("in.jsonl:2: invalid_json_line"));
  EXPECT_THAT(sink_.notes, HasSubstr("in.jsonl:3: duplicate_custom_id"));
  EXPECT_TRUE(cluster_.runs.empty());
  EXPECT_FALSE(fs::exists(options_.results));
}

TEST_F(JobTest, StrictRunsAGoodFileAndRefusesAnEmptyOne) {
  options_.strict = true;
  WriteLines(3);
  EXPECT_EQ(MustRun().ok, 3u);
  WriteInput("");
  EXPECT_THAT(Run().status().message(), HasSubstr("empty_file"));
}

// ------------------------------------------------------------------------------- window

TEST_F(JobTest, TheWindowBoundsWhatIsInFlight) {
  WriteLines(100);
  options_.window_requests = 7;
  FakeClient client(&cluster_, &clock_);
  ASSERT_TRUE(Run(client).ok());
  EXPECT_EQ(client.queued_most, 7u);
}

// Scenario 39: whatever the input's size, the window's bytes are what is held.
TEST_F(JobTest, AnInputLargerThanTheWindowsBytesStreamsThrough) {
  std::string text;
  for (int i = 0; i < 64; ++i) {
    text += CompletionLine("id-" + std::to_string(i), std::string(100'000, 'p')) + "\n";
  }
  WriteInput(text);
  options_.window_bytes = 300'000;
  FakeClient client(&cluster_, &clock_);
  ASSERT_TRUE(Run(client).ok());
  EXPECT_GT(client.queued_most, 1u);
  EXPECT_LT(client.queued_bytes_most, 500'000u);
}

TEST_F(JobTest, AFullProducerQueueOnlyDelays) {
  WriteLines(50);
  FakeClient client(&cluster_, &clock_);
  client.queue_max = 3;
  const auto summary = Run(client);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->ok, 50u);
}

TEST_F(JobTest, ADeliveryThatFailsIsTriedAgainAndThenARow) {
  WriteLines(1);
  FakeClient client(&cluster_, &clock_);
  client.failing_deliveries = 2;
  EXPECT_EQ(Run(client)->ok, 1u);
  WriteInput(CompletionLine("other", "x") + "\n");
  options_.overwrite = true;
  FakeClient worse(&cluster_, &clock_);
  worse.failing_deliveries = 3;
  const auto summary = Run(worse);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->error, 1u);
  EXPECT_EQ(Json::parse(Lines(ErrorsPath())[0])["response"]["status_code"], 503);
}

TEST_F(JobTest, SilenceEndsTheJobNamingWhoWaitedLongest) {
  WriteLines(2);
  FakeClient client(&cluster_, &clock_);
  client.silent = true;
  const auto summary = Run(client);
  EXPECT_EQ(summary.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(summary.status().message(), HasSubstr("has waited longest of 2, for 600 s"));
}

TEST_F(JobTest, EveryRequestCarriesTheJobItsPriorityAndOneDeadline) {
  WriteLines(3);
  options_.job = "nightly";
  options_.deadline = std::chrono::hours(1);
  const int64_t expected = (clock_.WallNow() + options_.deadline).ms;
  FakeClient client(&cluster_, &clock_);
  ASSERT_TRUE(Run(client).ok());
  for (const wire::Request& request : client.submitted) {
    EXPECT_EQ(request.id.tenant, "acme");
    EXPECT_TRUE(request.id.request_id.starts_with("nightly-")) << request.id.request_id;
    EXPECT_EQ(request.job, "nightly");
    EXPECT_EQ(request.priority, wire::Priority::kBatch);
    EXPECT_EQ(request.deadline_ms, expected);
  }
}

// ------------------------------------------------------------------------------- resume

// Scenario 37, a death after each single answer.
TEST_F(JobTest, AKilledJobResumesToTheRowsOfAnUndisturbedOne) {
  constexpr uint64_t kLines = 24;
  options_.input = "examples/prompts.jsonl";
  options_.job = "nightly";
  options_.window_requests = 5;
  options_.deadline = std::chrono::hours(1);
  MustRun();
  const auto results = Rows(options_.results);
  const auto errors = Rows(ErrorsPath());
  for (uint64_t answers = 0; answers < kLines - 1; ++answers) {
    fs::remove(options_.results);
    fs::remove(ErrorsPath());
    cluster_ = {};
    FakeClient dying(&cluster_, &clock_, /*seed=*/answers);
    dying.answers_until_death = answers;
    EXPECT_EQ(Run(dying).status().code(), StatusCode::kUnavailable);
    EXPECT_TRUE(fs::exists(JobPath()));
    clock_.Advance(std::chrono::minutes(1));
    const Summary summary = MustRun();
    EXPECT_GE(summary.skipped, answers);
    EXPECT_EQ(Rows(options_.results), results) << "died after " << answers;
    EXPECT_EQ(Rows(ErrorsPath()), errors) << "died after " << answers;
    EXPECT_FALSE(fs::exists(JobPath()));
    for (const auto& [id, runs] : cluster_.runs) EXPECT_EQ(runs, 1u) << id;
  }
}

// Scenario 37, a death in the middle of writing a row: the outputs cut at any byte.
TEST_F(JobTest, OutputsCutAtAnyByteAreRepaired) {
  std::string text;
  for (int i = 1; i <= 4; ++i) text += CompletionLine("id-" + std::to_string(i), "p") + "\nnull\n";
  WriteInput(text);
  options_.job = "nightly";
  MustRun();
  const auto results = Rows(options_.results);
  const auto errors = Rows(ErrorsPath());
  const fs::path kept_results = folder_ / "kept";
  const fs::path kept_errors = folder_ / "kept.errors";
  fs::copy_file(options_.results, kept_results);
  fs::copy_file(ErrorsPath(), kept_errors);
  const auto bytes = fs::file_size(kept_results);
  for (uint64_t cut = 0; cut <= bytes; cut += 11) {
    fs::copy_file(kept_results, options_.results, fs::copy_options::overwrite_existing);
    fs::copy_file(kept_errors, ErrorsPath(), fs::copy_options::overwrite_existing);
    fs::resize_file(options_.results, cut);
    fs::resize_file(ErrorsPath(), std::min<uint64_t>(cut / 2, fs::file_size(ErrorsPath())));
    MustRun();
    ASSERT_EQ(Rows(options_.results), results) << "cut at " << cut;
    ASSERT_EQ(Rows(ErrorsPath()), errors) << "cut at " << cut;
  }
}

TEST_F(JobTest, AFinishedJobRunAgainSendsNothing) {
  WriteLines(5);
  MustRun();
  FakeClient client(&cluster_, &clock_);
  const auto summary = Run(client);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->skipped, 5u);
  EXPECT_TRUE(client.submitted.empty());
  EXPECT_EQ(ExitStatus(*summary), kExitAllOk);
}

TEST_F(JobTest, AFreshJobIsNotAnsweredFromAnEarlierOne) {
  WriteLines(5);
  MustRun();
  options_.overwrite = true;
  MustRun();
  EXPECT_EQ(cluster_.copies, 0u);
  EXPECT_EQ(Lines(options_.results).size(), 5u);
}

TEST_F(JobTest, AnInputThatChangedUnderItsRowsIsRefused) {
  WriteLines(3);
  MustRun();
  WriteInput(CompletionLine("id-1", "another prompt") + "\n");
  const auto summary = Run();
  EXPECT_EQ(summary.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(summary.status().message(), HasSubstr("line 1 of the input has changed"));
  EXPECT_EQ(Lines(options_.results).size(), 3u);
}

TEST_F(JobTest, AFileThatIsNoOutputOfAJobIsLeftAlone) {
  WriteLines(3);
  std::ofstream(options_.results) << "my precious notes\nand more";
  EXPECT_EQ(Run().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Lines(options_.results)[1], "and more");
}

// ------------------------------------------------------------------------------- interrupts

TEST_F(JobTest, OneInterruptFinishesWhatRunsAndSendsNothingMore) {
  WriteLines(50);
  options_.window_requests = 5;
  std::atomic<int> interrupts = 0;
  options_.interrupts = &interrupts;
  FakeClient client(&cluster_, &clock_);
  int answers = 0;
  client.on_answer = [&] { interrupts = ++answers >= 10 ? 1 : 0; };
  const auto summary = Run(client);
  ASSERT_TRUE(summary.ok());
  EXPECT_TRUE(summary->interrupted);
  EXPECT_EQ(ExitStatus(*summary), kExitInterrupted);
  EXPECT_EQ(summary->ok, client.submitted.size()) << "all that was sent has its row";
  EXPECT_EQ(summary->in, summary->ok + summary->not_run);
  EXPECT_LT(summary->ok, 20u);
  interrupts = 0;
  EXPECT_EQ(MustRun().ok + summary->ok, 50u);
}

TEST_F(JobTest, ASecondInterruptStopsAtOnceAndTheNextRunResumes) {
  WriteLines(50);
  options_.window_requests = 5;
  std::atomic<int> interrupts = 0;
  options_.interrupts = &interrupts;
  FakeClient client(&cluster_, &clock_);
  int answers = 0;
  client.on_answer = [&] { interrupts = ++answers >= 10 ? 2 : 0; };
  const auto summary = Run(client);
  ASSERT_TRUE(summary.ok());
  EXPECT_TRUE(summary->interrupted);
  EXPECT_EQ(summary->ok, 10u);
  EXPECT_EQ(summary->in, summary->ok + summary->not_run);
  interrupts = 0;
  EXPECT_EQ(MustRun().skipped, 10u);
  EXPECT_EQ(Lines(options_.results).size(), 50u);
}

// ------------------------------------------------------------------------------- paths

// Scenario 38.
TEST_F(JobTest, PathsThatCannotServeAreNamedBeforeAnythingRuns) {
  const auto refusal = [this] { return Run().status().ToString(); };
  EXPECT_THAT(refusal(), HasSubstr("in.jsonl: no such file"));
  WriteLines(1);
  JobOptions good = options_;
  options_.input = folder_;
  EXPECT_THAT(refusal(), HasSubstr("is a directory"));
  options_ = good;
  options_.results = folder_ / "none" / "out.jsonl";
  EXPECT_THAT(refusal(), HasSubstr("cannot be written"));
  options_ = good;
  options_.results = folder_ / "." / "in.jsonl";
  EXPECT_THAT(refusal(), HasSubstr("the input itself cannot be an output"));
  options_ = good;
  options_.errors = options_.results;
  EXPECT_THAT(refusal(), HasSubstr("being written by another job"));
  EXPECT_TRUE(cluster_.runs.empty());
  EXPECT_EQ(Lines(options_.input).size(), 1u) << "the input is untouched";
}

// Scenario 38: a limit on the file's size stands for the full disk.
TEST_F(JobTest, AFullDiskEndsTheJobAndKeepsWhatWasFinished) {
  WriteLines(50);
  options_.job = "nightly";
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  rlimit small = old_limit;
  small.rlim_cur = 5000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto summary = Run();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(summary.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(summary.status().message(), HasSubstr("out.jsonl: cannot write a row"));
  const auto kept = Lines(options_.results);
  EXPECT_GT(kept.size(), 3u);
  for (const std::string& row : kept) EXPECT_TRUE(Json::accept(row)) << row;
  EXPECT_EQ(MustRun().skipped, kept.size());
  EXPECT_EQ(Lines(options_.results).size(), 50u);
}

TEST_F(JobTest, ADeviceWithoutRoomIsAnErrorToo) {
  WriteLines(1);
  options_.results = "/dev/full";
  options_.errors = ErrorsPath();
  const auto summary = Run();
  EXPECT_FALSE(summary.ok());
}

// ------------------------------------------------------------------------------- progress

TEST_F(JobTest, ProgressCountsRowsAndSeesTheEnd) {
  WriteLines(20);
  MustRun();
  EXPECT_EQ(sink_.last.done, 20u);
  EXPECT_EQ(sink_.last.in_flight, 0u);
  EXPECT_GT(sink_.last.tokens_per_s, 0);
  EXPECT_EQ(sink_.last.seconds_left, 0);
}

TEST(ProgressTest, ATerminalGetsOneLineAndAPipePlainOnes) {
  ManualClock clock;
  std::string shown;
  const auto write = [&](const std::string& text) { shown += text; };
  const Progress progress{
      .done = 3, .failed = 1, .in_flight = 2, .tokens_per_s = 80, .seconds_left = 75};
  {
    TextProgress terminal(write, true, &clock);
    terminal.Update(progress);
    terminal.Update(progress);  // too soon
    clock.Advance(std::chrono::seconds(1));
    terminal.Update(progress);
  }
  const std::string text = "3 done, 1 failed, 2 running, 80 tokens/s, 1m15s left";
  EXPECT_EQ(shown, "\r\x1b[K" + text + "\r\x1b[K" + text + "\n");
  shown.clear();
  TextProgress plain(write, false, &clock);
  plain.Update(progress);
  clock.Advance(std::chrono::seconds(1));
  plain.Update(progress);  // too soon
  plain.Note("note");
  EXPECT_EQ(shown, text + "\nnote\n");
}

}  // namespace
}  // namespace baton::batch
