// Large arrays of the CPU backend: zero-filled, aligned to pages, in huge pages where the kernel
// gives them (streaming a model touches every page in every step).
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace baton::backend::cpu {

class Pages {
 public:
  Pages() = default;
  explicit Pages(size_t bytes);  // CHECKs that the memory is there
  ~Pages();
  Pages(Pages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  template <typename T>
  T* As() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace baton::backend::cpu
