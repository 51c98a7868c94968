// The input of a job, line by line: read, named, translated, and checked against the lines before
// it. One owner thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "src/base/result.h"
#include "src/batch/reader.h"
#include "src/batch/seen_ids.h"
#include "src/batch/translate.h"

namespace baton::batch {

struct IntakeOptions {
  std::string path;
  std::string job;
  size_t line_bytes_max = 1u << 20;
  // A file with more is refused; what the intake remembers of each line is 32 bytes.
  uint64_t lines_max = 50'000'000;
  TranslateOptions translate;
};

struct Item {
  LineInfo line;
  uint64_t content_hash = 0;
  uint64_t bytes = 0;  // of the line in the file
  // The request carries no id yet.
  std::variant<wire::Request, LineFault> what;
};

class Intake {
 public:
  static Result<std::unique_ptr<Intake>> Open(const IntakeOptions& options);

  // Empty at the end.
  Result<std::optional<Item>> Next();

 private:
  Intake(const IntakeOptions& options, ReadFn read)
      : options_(options), reader_(std::move(read), options.line_bytes_max) {}
  std::variant<BatchLine, LineFault> Judge(const RawLine& raw);

  const IntakeOptions options_;
  LineReader reader_;
  SeenIds seen_;
};

}  // namespace baton::batch
