#include "src/batch/progress.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

namespace baton::batch {
namespace {

constexpr Nanos kRefresh = std::chrono::milliseconds(200);
constexpr Nanos kPlainEvery = std::chrono::seconds(5);
constexpr const char* kBackToStart = "\r\x1b[K";  // and erase the line

std::string Duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

}  // namespace

std::string ProgressText(const Progress& progress) {
  std::string text = fmt::format("{} done, {} failed, {} running, {:.0f} tokens/s", progress.done,
                                 progress.failed, progress.in_flight, progress.tokens_per_s);
  if (progress.draining) {
    text += ", finishing what runs (interrupt again to stop now)";
  } else if (progress.seconds_left >= 0) {
    text += fmt::format(", {} left", Duration(progress.seconds_left));
  }
  return text;
}

TextProgress::~TextProgress() {
  if (line_open_) write_("\n");
}

void TextProgress::Update(const Progress& progress) {
  const MonoTime now = clock_->Now();
  if (now < next_) return;
  next_ = now + (terminal_ ? kRefresh : kPlainEvery);
  if (terminal_) {
    write_(kBackToStart + ProgressText(progress));
    line_open_ = true;
  } else {
    write_(ProgressText(progress) + "\n");
  }
}

void TextProgress::Note(const std::string& text) {
  write_((line_open_ ? kBackToStart : "") + text + "\n");
  line_open_ = false;
}

}  // namespace baton::batch
