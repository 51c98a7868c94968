// One consumer with the starts it was given, which outlives the loss of records: an offset that is
// gone is reported, counted and stepped over to the oldest record held, never silently. Owner: the
// controller's thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/result.h"
#include "src/bus/bus.h"

namespace baton::controller {

class Reader {
 public:
  static Result<Reader> Create(bus::Bus* bus, const std::string& name,
                               const std::vector<bus::StartPoint>& starts);

  // As Consumer::Poll; after a loss it has moved on and `losses()` has grown.
  Result<std::optional<bus::Record>> Poll(Nanos timeout);
  // All partitions. Repeating is harmless.
  Status SetPaused(bool paused);
  bool paused() const { return paused_; }
  uint64_t losses() const { return losses_; }
  bus::Consumer& consumer() { return *consumer_; }

 private:
  Reader(std::string name, std::unique_ptr<bus::Consumer> consumer)
      : name_(std::move(name)), consumer_(std::move(consumer)) {}
  Status StepOver();

  std::string name_;
  std::unique_ptr<bus::Consumer> consumer_;
  std::map<std::pair<std::string, int32_t>, int64_t> next_;
  bool paused_ = false;
  uint64_t losses_ = 0;
};

}  // namespace baton::controller
