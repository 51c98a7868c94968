#include "src/batch/rows.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/batch/reader.h"

namespace baton::batch {
namespace {

// A long answer with log-probs of each token stays far below.
constexpr size_t kRowBytesMax = 256u << 20;

constexpr uint64_t kHashMask = ~uint64_t{3};

}  // namespace

// ------------------------------------------------------------------------------- RowFile

Result<std::unique_ptr<RowFile>> RowFile::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return InvalidArgumentError(
        fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  }
  struct stat about {};
  const bool regular = ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
  std::unique_ptr<RowFile> file(new RowFile(path, fd, regular));
  if (regular && ::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return FailedPreconditionError(path + " is being written by another job");
  }
  return file;
}

RowFile::~RowFile() { ::close(fd_); }

Status RowFile::Error(std::string_view doing) const {
  const std::string why = fmt::format("{}: {}: {}", path_, doing, std::strerror(errno));
  const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  return full ? ResourceExhaustedError(why) : UnavailableError(why);
}

Status RowFile::Truncate(uint64_t bytes) {
  if (!regular_) return OkStatus();
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return Error("cannot be shortened");
  if (::lseek(fd_, static_cast<off_t>(bytes), SEEK_SET) < 0) return Error("cannot seek");
  bytes_ = bytes;
  return OkStatus();
}

Status RowFile::Clear() { return Truncate(0); }

Status RowFile::Recover(const std::function<Status(const RowName&)>& on_row) {
  if (!regular_) return OkStatus();
  ASSIGN_OR_RETURN(ReadFn read, OpenToRead(path_));
  LineReader reader(std::move(read), kRowBytesMax);
  uint64_t whole = 0;
  for (;;) {
    ASSIGN_OR_RETURN(const std::optional<RawLine> line, reader.Next());
    if (!line || reader.last_line_torn()) break;
    RowName name;
    if (line->too_long || !ReadRowName(line->text, &name)) {
      return FailedPreconditionError(fmt::format(
          "{}: line {} is no row of a batch job; name another file or move this one away", path_,
          line->number));
    }
    BATON_RETURN_IF_ERROR(on_row(name).WithContext(path_));
    whole += line->bytes;
  }
  return Truncate(whole);
}

Status RowFile::Append(std::string_view row) {
  std::string line;
  line.reserve(row.size() + 1);
  line.append(row).push_back('\n');
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t put = ::write(fd_, rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      const Status error = Error("cannot write a row");
      // What of this row got through goes away again; a reader shall see whole rows only.
      if (rest.size() < line.size()) IgnoreStatus(Truncate(bytes_));
      return error;
    }
    rest.remove_prefix(static_cast<size_t>(put));
  }
  bytes_ += line.size();
  return OkStatus();
}

Status RowFile::Sync() {
  if (!regular_ || ::fsync(fd_) == 0) return OkStatus();
  return Error("cannot be synced");
}

bool RowFile::SameFileAs(const RowFile& other) const {
  struct stat mine {};
  struct stat theirs {};
  return ::fstat(fd_, &mine) == 0 && ::fstat(other.fd_, &theirs) == 0 &&
         mine.st_dev == theirs.st_dev && mine.st_ino == theirs.st_ino;
}

// ------------------------------------------------------------------------------- FinishedLines

Status FinishedLines::Add(const RowName& name, Row row) {
  if (name.line == 0 || name.line > lines_max_) {
    return FailedPreconditionError(fmt::format("a row for line {} cannot be", name.line));
  }
  if (row_of_line_.size() < name.line) row_of_line_.resize(name.line, 0);
  row_of_line_[name.line - 1] = (name.content_hash & kHashMask) | static_cast<uint64_t>(row);
  return OkStatus();
}

Result<FinishedLines::Row> FinishedLines::Find(uint64_t line, uint64_t content_hash) const {
  const uint64_t stored = line > row_of_line_.size() ? 0 : row_of_line_[line - 1];
  const auto row = static_cast<Row>(stored & ~kHashMask);
  if (row == Row::kNone || (stored & kHashMask) == (content_hash & kHashMask)) return row;
  return FailedPreconditionError(fmt::format(
      "line {} of the input has changed since its row was written; name other output files, or ask "
      "to overwrite these",
      line));
}

}  // namespace baton::batch
