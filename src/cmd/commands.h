// The commands. Each adds its options and help to the app, and what to run to `commands`. No logic
// here or in the files that define them: they turn options into the calls of the rooms below.
#pragma once

#include "src/cmd/command_line.h"

namespace baton::cmd {

void AddBatch(CLI::App* app, Commands* commands);
void AddController(CLI::App* app, Commands* commands);
void AddRank(CLI::App* app, Commands* commands);  // hidden: what `baton instance` runs below mpirun
void AddSubmit(CLI::App* app, Commands* commands);
void AddInstance(CLI::App* app, Commands* commands);
void AddInfo(CLI::App* app, Commands* commands);  // version, config

}  // namespace baton::cmd
