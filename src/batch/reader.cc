#include "src/batch/reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "src/base/check.h"

namespace baton::batch {
namespace {

constexpr size_t kBufferBytes = 64u << 10;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// Closes with its last owner.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace

Result<ReadFn> OpenToRead(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const std::string why = fmt::format("{}: {}", path, std::strerror(errno));
    return errno == ENOENT ? NotFoundError(why) : InvalidArgumentError(why);
  }
  auto file = std::make_shared<File>(fd);
  struct stat about {};
  if (::fstat(fd, &about) != 0) return InternalError(path + ": " + std::strerror(errno));
  if (S_ISDIR(about.st_mode)) return InvalidArgumentError(path + " is a directory, not a file");
  return ReadFn([file, path](char* buffer, size_t size) -> Result<size_t> {
    for (;;) {
      const ssize_t got = ::read(file->fd(), buffer, size);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) return UnavailableError(path + ": " + std::strerror(errno));
    }
  });
}

LineReader::LineReader(ReadFn read, size_t line_bytes_max)
    : read_(std::move(read)), line_bytes_max_(line_bytes_max), buffer_(kBufferBytes) {
  CHECK(line_bytes_max > 0);
}

Result<bool> LineReader::Fill() {
  CHECK(begin_ == end_);
  ASSIGN_OR_RETURN(const size_t got, read_(buffer_.data(), buffer_.size()));
  begin_ = 0;
  end_ = got;
  return got > 0;
}

// Moves `bytes` from the buffer to the line, unless the line is past its limit already.
void LineReader::Take(size_t bytes, RawLine* line) {
  // Room for the carriage return that goes away in the end.
  if (!line->too_long && line->text.size() + bytes > line_bytes_max_ + 1) {
    line->too_long = true;
    std::string().swap(line->text);
  }
  if (!line->too_long) line->text.append(buffer_.data() + begin_, bytes);
  line->bytes += bytes;
  begin_ += bytes;
}

Result<std::optional<RawLine>> LineReader::Next() {
  RawLine line;
  torn_ = true;
  for (;;) {
    if (begin_ == end_) {
      ASSIGN_OR_RETURN(const bool more, Fill());
      if (!more) break;
    }
    const char* const from = buffer_.data() + begin_;
    const void* const newline = std::memchr(from, '\n', end_ - begin_);
    if (newline != nullptr) {
      Take(static_cast<size_t>(static_cast<const char*>(newline) - from), &line);
      ++line.bytes;
      ++begin_;
      torn_ = false;
      break;
    }
    Take(end_ - begin_, &line);
  }
  if (line.bytes == 0) {
    torn_ = false;
    return std::optional<RawLine>();
  }
  line.number = ++lines_;
  if (line.text.ends_with('\r')) line.text.pop_back();
  if (line.number == 1 && line.text.starts_with(kByteOrderMark)) {
    line.text.erase(0, kByteOrderMark.size());
  }
  if (line.text.size() > line_bytes_max_) {
    line.too_long = true;
    line.text.clear();
  }
  return std::optional<RawLine>(std::move(line));
}

}  // namespace baton::batch
