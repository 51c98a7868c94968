#include "src/cmd/signals.h"

#include <signal.h>
#include <unistd.h>

#include "src/launch/exit_codes.h"

namespace baton::cmd {
namespace {

std::atomic<int> g_interrupts{0};
std::atomic<int> g_handled{1};
std::atomic<bool> g_stop{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "the handler sets them");

void OnSignal(int) {
  g_stop = true;
  if (g_interrupts.fetch_add(1) >= g_handled) _exit(launch::kExitInterrupted);
}

}  // namespace

void InstallStopSignals() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

void HandleSignals(int count) { g_handled = count; }
std::atomic<int>& Interrupts() { return g_interrupts; }
const std::atomic<bool>& StopRequested() { return g_stop; }

}  // namespace baton::cmd
