// When a request ends by itself, and which part of its text is certain. Pure; one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/wire/messages.h"

namespace baton::engine {

// Turns tokens into text piece by piece, never ending inside a UTF-8 sequence.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  virtual std::string Push(int32_t token) = 0;
  virtual std::string Finish() = 0;
};

struct StopSpec {
  std::vector<int32_t> end_ids;
  std::vector<int32_t> stop_tokens;
  std::vector<std::string> stop_strings;  // none empty
  uint32_t max_new = 0;
};

class StopChecker {
 public:
  // `decoder` may be null: no text and no stop strings.
  StopChecker(StopSpec spec, std::unique_ptr<TokenDecoder> decoder);

  struct Outcome {
    wire::FinishReason finish = wire::FinishReason::kNone;
    std::string text;       // became certain; what may begin a stop string is held back
    std::string stop_text;  // the stop string that was met
  };
  // End ids and stop tokens give no text. A stop string wins over the length; of several, the one
  // that begins first, then the one listed first.
  Outcome Push(int32_t token);
  // The text that was held back, for a request that ends in another way.
  std::string Flush();

 private:
  // Index of the stop string that `held_` contains, or npos; `at` is where it begins.
  size_t FindStop(size_t* at) const;
  // Length of the longest tail of `held_` that begins a stop string.
  size_t HeldBack() const;

  StopSpec spec_;
  std::unique_ptr<TokenDecoder> decoder_;
  std::string held_;
  uint32_t generated_ = 0;
};

}  // namespace baton::engine
