// What this binary is made of.
#pragma once

#include <string>
#include <string_view>

namespace baton::cmd {

inline constexpr std::string_view kVersion = "0.1.0";

// Commit the binary was built from; defined by :stamped or :unstamped, one of which a binary links.
std::string_view BuildCommit();

// "baton 0.1.0 (commit 0123456789ab)", then one line per library.
std::string VersionText();

}  // namespace baton::cmd
