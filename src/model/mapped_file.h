// A whole file mapped read-only. Immutable after Open, so any thread may read it; the mapping lives
// as long as the object, the bytes with it. A file that is truncated by another process while it is
// mapped raises SIGBUS on access: model files are not edited in place.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "src/base/result.h"

namespace baton::model {

class MappedFile {
 public:
  // kNotFound when there is no such file, kInvalidArgument when it is empty or no regular file.
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  const std::byte* data_;
  size_t size_;
};

}  // namespace baton::model
