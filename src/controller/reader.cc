#include "src/controller/reader.h"

#include <algorithm>

#include "src/base/log.h"

namespace baton::controller {

namespace {
constexpr Nanos kWatermarksTimeout = std::chrono::seconds(5);
}

Result<Reader> Reader::Create(bus::Bus* bus, const std::string& name,
                              const std::vector<bus::StartPoint>& starts) {
  ASSIGN_OR_RETURN(auto consumer, bus->NewConsumer(name));
  BATON_RETURN_IF_ERROR(consumer->Assign(starts).WithContext(name));
  Reader reader(name, std::move(consumer));
  for (const bus::StartPoint& start : starts) {
    reader.next_[{start.topic, start.partition}] = start.offset;
  }
  return reader;
}

Result<std::optional<bus::Record>> Reader::Poll(Nanos timeout) {
  Result<std::optional<bus::Record>> polled = consumer_->Poll(timeout);
  if (polled.ok()) {
    if (polled->has_value()) {
      next_[{(*polled)->topic, (*polled)->partition}] = (*polled)->offset + 1;
    }
    return polled;
  }
  if (polled.status().code() != StatusCode::kDataLoss) return polled.status().WithContext(name_);
  ++losses_;
  LOG(kError, "{}: records were lost: {}", name_, polled.status().message());
  BATON_RETURN_IF_ERROR(StepOver().WithContext(name_));
  return std::optional<bus::Record>();
}

Status Reader::StepOver() {
  std::vector<bus::StartPoint> starts;
  for (auto& [key, next] : next_) {
    ASSIGN_OR_RETURN(const bus::Watermarks marks,
                     consumer_->GetWatermarks(key.first, key.second, kWatermarksTimeout));
    if (next == bus::kOffsetEnd) next = marks.high;
    next = std::clamp(next, marks.low, marks.high);
    starts.push_back({key.first, key.second, next});
  }
  BATON_RETURN_IF_ERROR(consumer_->Assign(starts));
  const bool paused = paused_;
  paused_ = false;
  return SetPaused(paused);
}

Status Reader::SetPaused(bool paused) {
  if (paused == paused_) return OkStatus();
  for (const auto& [key, next] : next_) {
    BATON_RETURN_IF_ERROR(paused ? consumer_->Pause(key.first, key.second)
                                 : consumer_->Resume(key.first, key.second));
  }
  paused_ = paused;
  return OkStatus();
}

}  // namespace baton::controller
