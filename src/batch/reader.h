// Lines of a JSONL file, one at a time, in bounded memory. A byte order mark at the front, CRLF and
// a missing final newline are read as what they mean; what is wrong with a line is for the
// translator to say. One owner thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/result.h"

namespace baton::batch {

struct RawLine {
  uint64_t number = 0;  // from 1, blank lines counted
  std::string text;     // without its end; empty when too long
  bool too_long = false;
  uint64_t bytes = 0;  // in the file, end included
};

// Reads up to `size` bytes into `buffer`; 0 at the end.
using ReadFn = std::function<Result<size_t>(char* buffer, size_t size)>;

// Opens a regular file or a pipe to read. kNotFound when it does not exist, kInvalidArgument when
// it is a directory. The file closes with the last copy of the function.
Result<ReadFn> OpenToRead(const std::string& path);

class LineReader {
 public:
  // Lines of more than `line_bytes_max` bytes are skipped and reported as too long.
  LineReader(ReadFn read, size_t line_bytes_max);

  // Empty at the end. Errors are the file's.
  Result<std::optional<RawLine>> Next();
  // True when the last line that Next gave had no newline behind it.
  bool last_line_torn() const { return torn_; }

 private:
  // False at the end of the file.
  Result<bool> Fill();
  void Take(size_t bytes, RawLine* line);

  ReadFn read_;
  const size_t line_bytes_max_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what is not consumed yet
  size_t end_ = 0;
  uint64_t lines_ = 0;
  bool torn_ = false;
};

}  // namespace baton::batch
