#include "src/engine/executor_core.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "src/base/log.h"
#include "src/engine/outbox.h"

namespace baton::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// What callers hand to the engine thread. Bounded by the requests that are open: an id is in `open`
// from Enqueue to its final response.
struct Commands {
  std::vector<std::pair<ExecId, ExecRequest>> adds;
  std::set<ExecId> cancels;
  std::set<uint64_t> withdraws;
  bool any() const { return !adds.empty() || !cancels.empty() || !withdraws.empty(); }
};

class ThreadedExecutor : public Executor {
 public:
  explicit ThreadedExecutor(ExecutorParts parts)
      : options_(parts.engine.options),
        limits_(parts.engine.request_limits),
        clock_(parts.clock),
        transports_(std::move(parts.transports)),
        ranks_(std::move(parts.ranks)),
        core_(WithRanks(std::move(parts.engine), ranks_.get()),
              [this](ExecResponse response) { OnResponse(std::move(response)); }),
        thread_([this] { Run(); }) {}

  ~ThreadedExecutor() override { Shutdown(false, Nanos::zero()); }

  Result<ExecId> Enqueue(ExecRequest request) override {
    BATON_RETURN_IF_ERROR(CheckRequest(request, limits_));
    std::lock_guard lock(mutex_);
    if (!health_.ok()) return UnavailableError("engine lost: " + health_.ToString());
    if (closing_) return UnavailableError("the executor is shut down");
    if (open_.size() >= options_.queue_max) {
      return ResourceExhaustedError(fmt::format("{} requests wait or run", open_.size()));
    }
    // Final responses that nobody takes are bounded as well.
    if (outbox_.size() >= size_t{4} * options_.queue_max) {
      return ResourceExhaustedError(fmt::format("{} responses were not taken", outbox_.size()));
    }
    const ExecId id = next_id_++;
    open_.insert(id);
    commands_.adds.emplace_back(id, std::move(request));
    Wake();
    return id;
  }

  std::vector<ExecResponse> AwaitAny(Nanos timeout) override { return outbox_.TakeAny(timeout); }
  std::vector<ExecResponse> Await(std::span<const ExecId> ids, Nanos timeout) override {
    return outbox_.Take(ids, timeout);
  }

  void Cancel(ExecId id) override {
    std::lock_guard lock(mutex_);
    if (!open_.contains(id)) return;
    commands_.cancels.insert(id);
    Wake();
  }

  void WithdrawLease(uint64_t lease) override {
    std::lock_guard lock(mutex_);
    // One that never was a lease here, or twice the running ones at once, is not worth a queue.
    if (lease >= next_id_ || commands_.withdraws.size() >= size_t{2} * options_.queue_max) return;
    commands_.withdraws.insert(lease);
    Wake();
  }

  ExecStats stats() const override {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  Status health() const override {
    std::lock_guard lock(mutex_);
    return health_;
  }

  void Shutdown(bool drain, Nanos timeout) override {
    std::unique_lock lock(mutex_);
    closing_ = true;
    Wake();
    if (drain) drained_cv_.wait_for(lock, timeout, [&] { return drained_; });
    stopping_ = true;
    Wake();
    if (joining_) {
      drained_cv_.wait(lock, [&] { return joined_; });  // by the caller that joins
      return;
    }
    joining_ = true;
    lock.unlock();
    thread_.join();
    lock.lock();
    joined_ = true;
    drained_cv_.notify_all();
  }

 private:
  static EngineParts WithRanks(EngineParts parts, RankGroup* ranks) {
    parts.ranks = ranks;
    return parts;
  }

  void Wake() {  // under mutex_
    ++calls_;
    wake_.notify_one();
  }

  void OnResponse(ExecResponse response) {
    const bool final = response.final;
    const ExecId id = response.id;
    outbox_.Put(std::move(response));
    if (!final) return;
    std::lock_guard lock(mutex_);
    open_.erase(id);
  }

  void Run() {
    Nanos stop_waited = Nanos::zero();
    bool stopped = false;
    int quiet = 0;  // turns in a row that moved nothing
    while (true) {
      bool stopping = false;
      const bool commanded = TakeCommands(&stopping);
      const MonoTime now = clock_->Now();
      if (stopping && !stopped) {
        core_.CancelAll(now);
        core_.WithdrawLeases("shutdown");
        stopped = true;
      }
      const bool moved = core_.Turn(now) || commanded;
      // While a step runs, turns that find nothing come by the thousand.
      if (moved || !core_.step_running()) Publish();
      if (!core_.health().ok() || (stopping && core_.idle())) break;
      if (moved) {
        quiet = 0;
        continue;
      }
      const Nanos wait = WaitTime(++quiet);
      if (stopping) {
        stop_waited += std::max<Nanos>(wait, microseconds(1));
        if (stop_waited >= 2 * options_.vote_deadline) {
          LOG(kError, "shutdown: ranks still hold {} admissions", core_.votes().size());
          break;
        }
      }
      Sleep(wait);
    }
    outbox_.Close();
    std::lock_guard lock(mutex_);
    drained_ = true;
    drained_cv_.notify_all();
  }

  bool TakeCommands(bool* stopping) {
    Commands commands;
    {
      std::lock_guard lock(mutex_);
      commands = std::exchange(commands_, {});
      *stopping = stopping_;
      calls_seen_ = calls_;
    }
    const MonoTime now = clock_->Now();
    for (auto& [id, request] : commands.adds) core_.Add(id, std::move(request), now);
    for (const ExecId id : commands.cancels) core_.Cancel(id, now);
    for (const uint64_t lease : commands.withdraws) core_.WithdrawLease(lease, "withdrawn");
    return commands.any();
  }

  void Publish() {
    ExecStats stats = core_.stats();
    std::lock_guard lock(mutex_);
    stats_ = std::move(stats);
    health_ = core_.health();
    if (closing_ && core_.idle() && !commands_.any()) {
      drained_ = true;
      drained_cv_.notify_all();
    }
  }

  // How long nothing can happen that this thread would have to see. A step or a fetch ends within
  // microseconds to milliseconds and nobody tells: look often, then less often. Leases and votes
  // allow a few milliseconds. Otherwise a command or a timer ends the sleep; 50 ms bound the error
  // when the clock is not the machine's, and serve peers that ask for a lease that has ended.
  Nanos WaitTime(int quiet) const {
    const Nanos backoff = microseconds(quiet < 64 ? 0 : std::min(200, 10 * (quiet - 63)));
    if (core_.step_running() || core_.fetches_open() > 0) return backoff;
    if (!core_.idle()) return std::min<Nanos>(microseconds(20) * quiet, milliseconds(2));
    return transports_.source != nullptr ? Nanos(milliseconds(50)) : Nanos(milliseconds(500));
  }

  void Sleep(Nanos wait) {
    if (wait <= Nanos::zero()) {
      std::this_thread::yield();
      return;
    }
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, wait, [&] { return calls_ != calls_seen_; });
  }

  const ExecOptions options_;
  const RequestLimits limits_;
  const Clock* const clock_;

  mutable std::mutex mutex_;  // guards all up to core_
  std::condition_variable wake_;
  std::condition_variable drained_cv_;
  Commands commands_;
  std::set<ExecId> open_;
  ExecId next_id_ = 1;
  ExecStats stats_;
  Status health_;
  bool closing_ = false;   // no new requests
  bool stopping_ = false;  // end what runs
  uint64_t calls_ = 0;     // that the engine thread should look at
  uint64_t calls_seen_ = 0;
  bool drained_ = false;
  bool joining_ = false;
  bool joined_ = false;

  Outbox outbox_;
  transfer::TransportPair transports_;
  std::unique_ptr<RankGroup> ranks_;
  EngineCore core_;  // the engine thread's alone
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Executor> MakeExecutor(ExecutorParts parts) {
  return std::make_unique<ThreadedExecutor>(std::move(parts));
}

}  // namespace baton::engine
