// Submits requests to a running cluster and writes what comes back, for `baton submit`. One thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/batch/translate.h"
#include "src/client/client.h"
#include "src/wire/messages.h"

namespace baton::cmd {

// One request and how its answer is shown.
struct Question {
  wire::Request request;
  batch::LineInfo line;  // rows only
};

struct AskOptions {
  bool rows = false;           // answers as OpenAI batch rows; otherwise as plain text
  size_t window = 64;          // submitted and not yet answered
  Nanos silence{};             // without any record of ours for so long: kDeadlineExceeded
  std::function<bool()> stop;  // true: cancel what runs and return kCancelled
};

struct AskCounts {
  uint64_t answered = 0;
  uint64_t failed = 0;
};

// `next` gives the questions one by one, then nothing. Text goes to `out` in order of completion;
// why a request failed goes to `err`, except for rows, which say it themselves.
Result<AskCounts> AskAll(const std::function<Result<std::optional<Question>>()>& next,
                         const AskOptions& options, client::Client* client, std::FILE* out,
                         std::FILE* err);

// The text of one answer, token by token. A higher attempt begins again with the same text (the
// seed is fixed), so what was shown is not shown twice; a lower one is ignored.
class TextStream {
 public:
  // What is new with this record.
  std::string Add(const wire::TokenRecord& record);
  // What the whole answer has beyond what was shown.
  std::string Finish(const std::string& whole) const;

 private:
  Attempt attempt_;
  uint64_t next_sequence_ = 0;
  std::string text_;  // of this attempt
  size_t shown_ = 0;  // bytes of the answer that were returned
};

}  // namespace baton::cmd
