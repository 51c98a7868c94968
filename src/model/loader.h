// Opens model files.
#pragma once

#include <memory>
#include <string>

#include "src/base/result.h"
#include "src/model/model.h"

namespace baton::model {

// A GGUF file of the Llama architecture, mapped; reads every byte once for the hash (about 10 GB/s
// from the page cache). kNotFound when there is no file; kInvalidArgument, in one line that names
// the file, when it is no model or one that is not supported.
Result<std::unique_ptr<Model>> LoadModel(const std::string& path);

}  // namespace baton::model
