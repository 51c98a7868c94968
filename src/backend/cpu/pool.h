// A few threads that run loops together with their owner, thousands of times a second. Within a
// step they spin for tens of microseconds between loops; then they sleep, so an idle backend costs
// nothing. Units are claimed one by one: a worker that the kernel has not scheduled yet holds up
// nobody, the owner then does the work itself.
//
// Threads are not pinned: whoever starts the process binds it; a worker pinned by itself would
// collide with those of other ranks on the machine. One owner thread makes every call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace baton::backend::cpu {

class Pool {
 public:
  // `threads` >= 1 counts the owner.
  explicit Pool(uint32_t threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  uint32_t threads() const { return static_cast<uint32_t>(workers_.size()) + 1; }

  // Calls body(unit, thread) once for each unit in [0, units), ascending as claimed; thread is in
  // [0, threads()), 0 the owner. Returns when all are done. Not reentrant.
  template <typename Body>
  void For(uint32_t units, Body&& body) {
    Run(units, &body, [](void* context, uint32_t unit, uint32_t thread) {
      (*static_cast<std::remove_reference_t<Body>*>(context))(unit, thread);
    });
  }

 private:
  using Function = void (*)(void* context, uint32_t unit, uint32_t thread);
  void Run(uint32_t units, void* context, Function function);
  void Work(uint32_t thread);
  // Runs one unit if any is left.
  bool TakeOne(uint32_t thread);
  bool WaitForWork();  // false: stop

  // The loop in progress; written by the owner while nobody holds a unit.
  Function function_ = nullptr;
  void* context_ = nullptr;
  uint32_t units_ = 0;
  // Cache lines apart, by padding: alignas would make the class over-aligned, which gcc 12 does not
  // honour for locals under AddressSanitizer.
  static constexpr size_t kLine = 64;
  char apart0_[kLine];
  // High half: number of the loop; low half: units nobody has claimed yet.
  std::atomic<uint64_t> claim_{0};
  char apart1_[kLine];
  std::atomic<uint32_t> done_{0};
  char apart2_[kLine];
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<uint32_t> wake_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace baton::backend::cpu
