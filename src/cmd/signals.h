// SIGINT and SIGTERM as a flag. The first asks for an orderly end; the second ends the process at
// once with kExitInterrupted: keepers end what it started (src/launch/keeper.h).
#pragma once

#include <atomic>

namespace baton::cmd {

// Installs the handlers, and ignores SIGPIPE. Call once, in main().
void InstallStopSignals();
// True after the first signal; lives as long as the process.
const std::atomic<bool>& StopRequested();

}  // namespace baton::cmd
