// May a schema follow another one on a running cluster? `flatc --conform` (here as the library call
// behind it) lets a changed file identifier, a renamed field and a removed table pass, so the rest
// is checked on the binary form of both schemas. For tests; pure but for reading the files.
#pragma once

#include <string>
#include <vector>

#include "src/base/result.h"

namespace baton::schemas {

// What forbids `new_path` as the successor of `old_path`, one line each; empty when nothing does.
// Each schema finds what it includes in its own folder. kInvalidArgument when one does not parse.
Result<std::vector<std::string>> Violations(const std::string& old_path,
                                            const std::string& new_path);

}  // namespace baton::schemas
