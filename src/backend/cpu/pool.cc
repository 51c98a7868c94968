#include "src/backend/cpu/pool.h"

#include <immintrin.h>

#include "src/base/check.h"

namespace baton::backend::cpu {
namespace {

// One pause takes about 50 ns on current servers: some 50 us in all, longer than the pieces of a
// step that run on the owner alone.
constexpr int kSpins = 1000;

}  // namespace

Pool::Pool(uint32_t threads) {
  CHECK(threads >= 1);
  for (uint32_t thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread] { Work(thread); });
  }
}

Pool::~Pool() {
  stop_.store(true);
  wake_.fetch_add(1);
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

bool Pool::TakeOne(uint32_t thread) {
  uint64_t seen = claim_.load(std::memory_order_acquire);
  while ((seen & UINT32_MAX) != 0) {
    if (!claim_.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel)) continue;
    // The unit is ours, so the owner waits for it and the loop's description stands still.
    const uint32_t units = units_;
    function_(context_, units - static_cast<uint32_t>(seen & UINT32_MAX), thread);
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == units) done_.notify_one();
    return true;
  }
  return false;
}

void Pool::Run(uint32_t units, void* context, Function function) {
  if (units == 0) return;
  if (units == 1 || workers_.empty()) {
    for (uint32_t unit = 0; unit < units; ++unit) function(context, unit, 0);
    return;
  }
  function_ = function;
  context_ = context;
  units_ = units;
  done_.store(0, std::memory_order_relaxed);
  const uint64_t loop = (claim_.load(std::memory_order_relaxed) >> 32) + 1;
  claim_.store(loop << 32 | units);  // sequentially consistent, as the loads in WaitForWork
  if (sleepers_.load() != 0) {
    wake_.fetch_add(1);
    wake_.notify_all();
  }
  while (TakeOne(0)) {
  }
  for (int spin = 0; spin < kSpins; ++spin) {
    if (done_.load(std::memory_order_acquire) == units) return;
    _mm_pause();
  }
  for (uint32_t done = done_.load(std::memory_order_acquire); done != units;
       done = done_.load(std::memory_order_acquire)) {
    done_.wait(done);
  }
}

bool Pool::WaitForWork() {
  for (int spin = 0; spin < kSpins; ++spin) {
    if ((claim_.load(std::memory_order_relaxed) & UINT32_MAX) != 0) return true;
    if (stop_.load(std::memory_order_relaxed)) return false;
    _mm_pause();
  }
  sleepers_.fetch_add(1);
  const uint32_t seen = wake_.load();
  // Looked at after sleepers_ was raised: either this sees the work or the owner sees the sleeper.
  if ((claim_.load() & UINT32_MAX) == 0 && !stop_.load()) wake_.wait(seen);
  sleepers_.fetch_sub(1);
  return !stop_.load();
}

void Pool::Work(uint32_t thread) {
  while (WaitForWork()) {
    while (TakeOne(thread)) {
    }
  }
}

}  // namespace baton::backend::cpu
