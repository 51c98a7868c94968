// Which model file a command uses, and a first look at it before anything is started.
#pragma once

#include <string>

#include "src/base/result.h"
#include "src/config/config.h"

namespace baton::cmd {

// `wanted`, or the model that Bazel put beside this program when `wanted` is empty. kNotFound when
// there is none, kInvalidArgument when it is not a GGUF file; the message names path and cure.
Result<std::string> FindModelFile(const std::string& wanted);

// Fills in path and name of the model that Bazel put beside this program, unless others are set.
Status FindModel(config::Model* model);

}  // namespace baton::cmd
