// What a running job shows. One owner thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "src/base/clock.h"

namespace baton::batch {

struct Progress {
  uint64_t done = 0;    // lines with a row, those of an earlier run included
  uint64_t failed = 0;  // of them in the error file
  uint64_t in_flight = 0;
  uint64_t completion_tokens = 0;  // of this run
  double tokens_per_s = 0;
  double seconds = 0;
  double seconds_left = -1;  // negative: unknown
  bool draining = false;
};

class ProgressSink {
 public:
  virtual ~ProgressSink() = default;
  // Called often; the sink decides when to show something.
  virtual void Update(const Progress& progress) = 0;
  // A line that shall be seen: a refused line under --strict, a stop.
  virtual void Note(const std::string& text) = 0;
};

// "1200 done, 3 failed, 256 running, 845 tokens/s, 1m20s left".
std::string ProgressText(const Progress& progress);

// On a terminal one line, refreshed five times a second; otherwise a line every five seconds.
class TextProgress : public ProgressSink {
 public:
  using Write = std::function<void(const std::string& text)>;
  // `write` gets raw text, newlines and carriage returns included. `clock` outlives this.
  TextProgress(Write write, bool terminal, const Clock* clock)
      : write_(std::move(write)), terminal_(terminal), clock_(clock), next_(clock->Now()) {}
  // Leaves the cursor on a fresh line.
  ~TextProgress() override;

  void Update(const Progress& progress) override;
  void Note(const std::string& text) override;

 private:
  const Write write_;
  const bool terminal_;
  const Clock* const clock_;
  MonoTime next_;
  bool line_open_ = false;
};

}  // namespace baton::batch
