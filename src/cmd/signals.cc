#include "src/cmd/signals.h"

#include <signal.h>
#include <unistd.h>

#include "src/launch/exit_codes.h"

namespace baton::cmd {
namespace {

std::atomic<bool> g_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "the handler sets it");

void OnSignal(int) {
  if (g_stop.exchange(true)) _exit(launch::kExitInterrupted);
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

const std::atomic<bool>& StopRequested() { return g_stop; }

}  // namespace baton::cmd
