// A batch job: a JSONL file in, a results file and an error file out, each line once. One thread;
// everything it holds is bounded by its window.
//
// Rows are appended in the order of completion; join on custom_id. A job that was killed, drained
// or stopped is resumed by running it again: lines with a row are skipped, a torn last row is cut
// off, and a line that was in flight is sent under the same request id, by which the controller
// knows it and answers without a second run. While the job is unfinished, "<results>.job" beside
// the results file keeps its name and its deadline; a finished job removes it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/batch/progress.h"
#include "src/batch/translate.h"
#include "src/client/client.h"

namespace baton::batch {

struct JobOptions {
  std::string input;
  std::string results;
  std::string
      errors;  // empty: "<results without .jsonl>.errors.jsonl"; removed when it stays empty
  std::string tenant;
  std::string job;  // empty: a fresh random name, or the unfinished job's own when resuming
  wire::Priority priority = wire::Priority::kBatch;
  // Refuse the whole file, before anything runs, when any line is wrong.
  bool strict = false;
  // Start anew over the rows of an earlier job.
  bool overwrite = false;
  TranslateOptions translate;
  Millis deadline{0};  // for the whole job, from its first start; 0: none
  size_t window_requests = 256;
  size_t window_bytes = 64u << 20;  // of input lines in flight
  size_t line_bytes_max = 1u << 20;
  uint64_t lines_max = 50'000'000;
  // Without any answer for so long, while some are awaited, the job gives up.
  Nanos stall_timeout = std::chrono::minutes(10);
  // Raised by each interrupt: 1 sends nothing more and waits for what runs, 2 stops at once. May be
  // null; outlives the job.
  const std::atomic<int>* interrupts = nullptr;
};

// in == ok + error + cancelled + expired + dead + skipped + not_run.
struct Summary {
  std::string job;
  uint64_t in = 0;  // lines read
  uint64_t ok = 0;
  uint64_t error = 0;  // refused lines and failed requests
  uint64_t cancelled = 0;
  uint64_t expired = 0;
  uint64_t dead = 0;
  uint64_t skipped = 0;         // had their row from an earlier run
  uint64_t skipped_failed = 0;  // of them in the error file
  uint64_t not_run = 0;         // read, but without a row because the job was interrupted
  uint64_t prompt_tokens = 0;
  uint64_t completion_tokens = 0;
  double seconds = 0;
  bool interrupted = false;  // lines may be left; run the job again to resume
};

// kInvalidArgument: an option or a path is wrong, or --strict found a line that is; nothing ran.
// kFailedPrecondition: the output files are another's. Later errors (disk full, bus away, stalled)
// leave every row that was finished.
Result<Summary> RunBatch(const JobOptions& options, client::Client& client, const Clock& clock,
                         ProgressSink& progress);

// "batch nightly: 24 in, 22 ok, 2 error, 0 cancelled, ...; 800 tokens in 4.0 s, 200 tokens/s".
std::string SummaryText(const Summary& summary);

inline constexpr int kExitAllOk = 0;
inline constexpr int kExitSomeFailed = 1;     // finished; some lines are in the error file
inline constexpr int kExitInterrupted = 130;  // lines may be left
int ExitStatus(const Summary& summary);

}  // namespace baton::batch
