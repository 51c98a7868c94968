// The only way to the time. MonoTime drives deadlines inside one process; WallTime crosses
// processes (request deadlines, record timestamps). Clocks are thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace baton {

using Nanos = std::chrono::nanoseconds;
using Millis = std::chrono::milliseconds;

// Nanoseconds on the monotonic clock of this process.
struct MonoTime {
  int64_t ns = 0;
  static constexpr MonoTime Max() { return {INT64_MAX}; }
  friend auto operator<=>(const MonoTime&, const MonoTime&) = default;
  // Saturates, so that Max() stays Max().
  friend MonoTime operator+(MonoTime t, Nanos d) {
    return d.count() > 0 && t.ns > INT64_MAX - d.count() ? Max() : MonoTime{t.ns + d.count()};
  }
  friend Nanos operator-(MonoTime a, MonoTime b) { return Nanos(a.ns - b.ns); }
};

// Milliseconds since 1970, UTC.
struct WallTime {
  int64_t ms = 0;
  friend auto operator<=>(const WallTime&, const WallTime&) = default;
  friend WallTime operator+(WallTime t, Millis d) { return {t.ms + d.count()}; }
  friend Millis operator-(WallTime a, WallTime b) { return Millis(a.ms - b.ms); }
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonoTime Now() const = 0;
  virtual WallTime WallNow() const = 0;
};

// The machine's clocks. The object lives as long as the process.
Clock& RealClock();

// Stands still until told to move; for tests and the simulator.
class ManualClock : public Clock {
 public:
  explicit ManualClock(MonoTime start = {1'000'000'000}, WallTime wall = {1'700'000'000'000})
      : now_(start), wall_(wall), start_(start) {}
  MonoTime Now() const override;
  WallTime WallNow() const override;
  void Advance(Nanos by);

 private:
  mutable std::mutex mutex_;
  MonoTime now_;
  WallTime wall_;
  MonoTime start_;
};

}  // namespace baton
