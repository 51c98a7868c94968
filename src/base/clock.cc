#include "src/base/clock.h"

namespace baton {
namespace {

class SystemClock final : public Clock {
 public:
  MonoTime Now() const override {
    return {std::chrono::duration_cast<Nanos>(std::chrono::steady_clock::now().time_since_epoch())
                .count()};
  }
  WallTime WallNow() const override {
    return {std::chrono::duration_cast<Millis>(std::chrono::system_clock::now().time_since_epoch())
                .count()};
  }
};

}  // namespace

Clock& RealClock() {
  static auto* clock = new SystemClock();
  return *clock;
}

MonoTime ManualClock::Now() const {
  std::lock_guard lock(mutex_);
  return now_;
}

WallTime ManualClock::WallNow() const {
  std::lock_guard lock(mutex_);
  return wall_ + std::chrono::duration_cast<Millis>(now_ - start_);
}

void ManualClock::Advance(Nanos by) {
  std::lock_guard lock(mutex_);
  now_ = now_ + by;
}

}  // namespace baton
