// Bounded queue between threads. Full means the producer is told, never that it grows.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "src/base/check.h"
#include "src/base/clock.h"

namespace baton {

// Any number of producers and consumers. After Close() nothing goes in and what is inside still
// comes out.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) { CHECK(capacity > 0); }

  // False when full or closed; `item` is then untouched.
  [[nodiscard]] bool TryPush(T&& item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  // Waits for room for at most `timeout`. False when there was none, or closed.
  [[nodiscard]] bool Push(T&& item, Nanos timeout) {
    {
      std::unique_lock lock(mutex_);
      room_.wait_for(lock, timeout, [&] { return closed_ || items_.size() < capacity_; });
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  // Waits for an item for at most `timeout` (zero: looks once). Empty when none came.
  std::optional<T> Pop(Nanos timeout) {
    std::optional<T> item;
    {
      std::unique_lock lock(mutex_);
      if (timeout > Nanos::zero()) {
        ready_.wait_for(lock, timeout, [&] { return closed_ || !items_.empty(); });
      }
      if (items_.empty()) return std::nullopt;
      item.emplace(std::move(items_.front()));
      items_.pop_front();
    }
    room_.notify_one();
    return item;
  }

  void Close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
    room_.notify_all();
  }

  size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }
  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::condition_variable room_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace baton
