// SIGINT and SIGTERM as a count. The first asks for an orderly end; one more than the command knows
// to handle ends the process at once with kExitInterrupted: keepers end what it started
// (src/launch/keeper.h).
#pragma once

#include <atomic>

namespace baton::cmd {

// Installs the handlers, and ignores SIGPIPE. Call once, in main().
void InstallStopSignals();
// From now on, this many signals are for the command to handle; 1 until this is called.
void HandleSignals(int count);

// How many came. A command may raise it itself, to end for another reason.
std::atomic<int>& Interrupts();
// True after the first. Both live as long as the process.
const std::atomic<bool>& StopRequested();

}  // namespace baton::cmd
