#include "src/engine/stop.h"

#include <algorithm>
#include <string_view>

namespace baton::engine {

StopChecker::StopChecker(StopSpec spec, std::unique_ptr<TokenDecoder> decoder)
    : spec_(std::move(spec)), decoder_(std::move(decoder)) {}

StopChecker::Outcome StopChecker::Push(int32_t token) {
  Outcome outcome;
  ++generated_;
  const auto in = [token](const std::vector<int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  if (in(spec_.end_ids) || in(spec_.stop_tokens)) {
    outcome.finish = in(spec_.end_ids) ? wire::FinishReason::kEnd : wire::FinishReason::kStop;
    outcome.text = Flush();
    return outcome;
  }
  if (decoder_ != nullptr) {
    held_ += decoder_->Push(token);
    size_t at = 0;
    const size_t stop = FindStop(&at);
    if (stop != std::string::npos) {
      outcome.finish = wire::FinishReason::kStop;
      outcome.text = held_.substr(0, at);
      outcome.stop_text = spec_.stop_strings[stop];
      held_.clear();
      return outcome;
    }
    const size_t certain = held_.size() - HeldBack();
    outcome.text = held_.substr(0, certain);
    held_.erase(0, certain);
  }
  if (generated_ >= spec_.max_new) {
    outcome.finish = wire::FinishReason::kLength;
    outcome.text += Flush();
  }
  return outcome;
}

std::string StopChecker::Flush() {
  std::string text = std::exchange(held_, {});
  if (decoder_ != nullptr) text += decoder_->Finish();
  return text;
}

size_t StopChecker::FindStop(size_t* at) const {
  size_t found = std::string::npos;
  *at = std::string::npos;
  for (size_t i = 0; i < spec_.stop_strings.size(); ++i) {
    const size_t begin = held_.find(spec_.stop_strings[i]);
    if (begin < *at) {
      *at = begin;
      found = i;
    }
  }
  return found;
}

size_t StopChecker::HeldBack() const {
  size_t longest = 0;
  for (const std::string& stop : spec_.stop_strings) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > longest; --length) {
      if (std::string_view(held_).substr(held_.size() - length) == stop.substr(0, length)) {
        longest = length;
      }
    }
  }
  return longest;
}

}  // namespace baton::engine
