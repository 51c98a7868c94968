#include "src/batch/job_file.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace baton::batch {

std::optional<JobFile> ReadJobFile(const std::string& path) {
  std::ifstream in(path);
  JobFile file;
  std::string end;
  if (!std::getline(in, file.job) || !(in >> file.deadline_ms >> end) || end != "end") {
    return std::nullopt;
  }
  return file.job.empty() ? std::nullopt : std::optional(file);
}

Status WriteJobFile(const std::string& path, const JobFile& file) {
  std::ofstream out(path, std::ios::trunc);
  out << file.job << '\n' << file.deadline_ms << "\nend\n";
  out.close();
  return out ? OkStatus() : InvalidArgumentError(path + ": cannot be written");
}

}  // namespace baton::batch
