// For binaries that tests run: a commit inside would make every test run again after each commit.
#include "src/cmd/version.h"

namespace baton::cmd {
std::string_view BuildCommit() { return "not stamped"; }
}  // namespace baton::cmd
