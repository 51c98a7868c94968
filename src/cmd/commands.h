// The commands. Each adds its options and help to the app, and what to run to `commands`. No logic
// here or in the files that define them: they turn options into the calls of the rooms below.
#pragma once

#include "src/cmd/command_line.h"

namespace baton::cmd {

void AddInstance(CLI::App* app, Commands* commands);
void AddInfo(CLI::App* app, Commands* commands);  // version, config

}  // namespace baton::cmd
