// Folders and files that other users cannot read: settings of child processes may hold secrets.
#pragma once

#include <string>
#include <string_view>

#include "src/base/result.h"

namespace baton::launch {

// "<base>/baton-XXXXXX", mode 0700. Whoever ends its user removes it (RemoveFolder).
Result<std::string> MakePrivateFolder(const std::string& base);
// A new file with mode 0600.
Status WritePrivateFile(const std::string& path, std::string_view text);

}  // namespace baton::launch
