// "<results>.job": what a job has to remember over a kill so that its requests keep their ids and
// their content. One owner thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/result.h"

namespace baton::batch {

struct JobFile {
  std::string job;
  int64_t deadline_ms = 0;  // wall clock; 0: none
};

// Empty when there is none, or none that makes sense: a job killed while writing it sent nothing.
std::optional<JobFile> ReadJobFile(const std::string& path);
Status WriteJobFile(const std::string& path, const JobFile& file);

}  // namespace baton::batch
