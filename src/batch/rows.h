// Output files of a job. Rows are appended whole or not at all, so that a job killed at any moment
// finds what it had finished. One owner thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/batch/translate.h"

namespace baton::batch {

class RowFile {
 public:
  // Opens or creates `path` and locks it, so that two jobs cannot share it. kInvalidArgument when
  // it cannot be written, kFailedPrecondition when another job writes it.
  static Result<std::unique_ptr<RowFile>> Open(const std::string& path);
  ~RowFile();
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  // Calls `on_row` for each whole row and cuts off a last one that is torn. kFailedPrecondition
  // when the file holds something else: it is then left as it is.
  Status Recover(const std::function<Status(const RowName&)>& on_row);
  // Forgets all rows.
  Status Clear();
  // One row, without its newline. After an error (disk full) the file ends with the row before.
  Status Append(std::string_view row);
  // Makes the rows outlast a crash of the machine.
  Status Sync();

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }
  bool SameFileAs(const RowFile& other) const;

 private:
  RowFile(std::string path, int fd, bool regular)
      : path_(std::move(path)), fd_(fd), regular_(regular) {}
  Status Truncate(uint64_t bytes);
  Status Error(std::string_view doing) const;

  const std::string path_;
  const int fd_;
  const bool regular_;  // a pipe or a device has no rows to recover
  uint64_t bytes_ = 0;  // of whole rows
};

// Which lines have a row, and of which kind. Eight bytes for each line up to the last finished one.
class FinishedLines {
 public:
  enum class Row : uint8_t { kNone, kResult, kError };

  explicit FinishedLines(uint64_t lines_max) : lines_max_(lines_max) {}
  // kFailedPrecondition when the number is none that this job can have.
  Status Add(const RowName& name, Row row);
  // kFailedPrecondition when the line had other content when its row was written.
  Result<Row> Find(uint64_t line, uint64_t content_hash) const;

 private:
  const uint64_t lines_max_;
  // The content's hash with its two lowest bits replaced by the Row.
  std::vector<uint64_t> row_of_line_;
};

}  // namespace baton::batch
