// For job_test only: a cluster in memory behind the client seam. Answers are a function of the
// request's content, come out of order, and are remembered over the lives of several clients, so
// that a repeat is answered by a copy as the controller would.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/base/rng.h"
#include "src/client/client.h"
#include "src/wire/codec.h"

namespace baton::batch {

struct FakeCluster {
  std::map<std::string, uint64_t> runs;  // by request id
  std::map<std::string, uint64_t> content;
  uint64_t copies = 0;
};

class FakeClient : public client::Client {
 public:
  FakeClient(FakeCluster* cluster, ManualClock* clock, uint64_t seed = 1)
      : cluster_(cluster), clock_(clock), rng_(seed) {}

  // Submit says kResourceExhausted while so many are queued.
  size_t queue_max = 1000;
  // Poll fails, as when the process dies, after so many answers.
  uint64_t answers_until_death = UINT64_MAX;
  // So many deliveries fail first.
  int failing_deliveries = 0;
  // Polls come back empty for ever.
  bool silent = false;
  // Called before each answer.
  std::function<void()> on_answer = [] {};

  size_t queued_most = 0;
  size_t queued_bytes_most = 0;
  std::vector<wire::Request> submitted;

  Status Submit(const wire::Request& request) override {
    if (queue_.size() >= queue_max) return ResourceExhaustedError("queue full");
    const Status valid = wire::ValidateRequest(request);
    if (!valid.ok()) return valid;
    submitted.push_back(request);
    queue_.push_back(request);
    queued_bytes_ += wire::Encode(request).size();
    queued_most = std::max(queued_most, queue_.size());
    queued_bytes_most = std::max(queued_bytes_most, queued_bytes_);
    return OkStatus();
  }
  Status Cancel(const Identity&) override { return OkStatus(); }
  Status CancelJob(const std::string&, const std::string&) override { return OkStatus(); }
  Status Flush(Nanos) override { return OkStatus(); }

  Result<std::optional<client::Received>> Poll(Nanos timeout) override {
    if (queue_.empty() || silent) {
      clock_->Advance(timeout);
      return std::optional<client::Received>();
    }
    if (answers_until_death-- == 0) return UnavailableError("the broker is away");
    on_answer();
    clock_->Advance(std::chrono::milliseconds(10));
    const size_t pick = rng_.Below(queue_.size());
    const wire::Request request = queue_[pick];
    queue_.erase(queue_.begin() + static_cast<ptrdiff_t>(pick));
    queued_bytes_ -= wire::Encode(request).size();
    return std::optional<client::Received>(Answer(request));
  }

 private:
  wire::ResultRecord Answer(const wire::Request& request) {
    wire::ResultRecord result;
    result.id = request.id;
    result.job = request.job;
    if (failing_deliveries > 0) {
      --failing_deliveries;
      result.outcome = wire::Outcome::kError;
      result.error = {.code = StatusCode::kUnavailable, .message = "delivery failed"};
      return result;
    }
    result.controller_epoch = ControllerEpoch(1);
    result.attempt = Attempt(1);
    const std::string& id = request.id.request_id;
    const uint64_t content = wire::ContentHash(request);
    if (cluster_->content.contains(id)) {
      ++cluster_->copies;
      if (cluster_->content[id] != content) {
        result.kind = wire::ResultKind::kConflict;
        return result;
      }
      result.kind = wire::ResultKind::kCopy;
    } else {
      cluster_->content[id] = content;
      ++cluster_->runs[id];
    }
    SetOutcome(request, &result);
    return result;
  }

  // Words in the prompt ask for an outcome.
  static void SetOutcome(const wire::Request& request, wire::ResultRecord* result) {
    const std::string prompt = request.prompt_text + request.chat_messages_json;
    const auto asks = [&](const char* word) { return prompt.find(word) != std::string::npos; };
    if (asks("CANCEL")) {
      result->outcome = wire::Outcome::kCancelled;
    } else if (asks("EXPIRE")) {
      result->outcome = wire::Outcome::kExpired;
    } else if (asks("KILL")) {
      result->outcome = wire::Outcome::kDead;
    } else if (asks("FAIL")) {
      result->outcome = wire::Outcome::kError;
      result->error = {.code = StatusCode::kNotFound, .message = "no such model"};
    } else {
      result->output.text = "answer to " + std::to_string(std::hash<std::string>()(prompt));
      result->output.tokens.assign(1 + prompt.size() % 7, 3);
      result->output.prompt_tokens = static_cast<uint32_t>(prompt.size());
      result->output.finish = wire::FinishReason::kEnd;
    }
  }

  FakeCluster* const cluster_;
  ManualClock* const clock_;
  Rng rng_;
  std::vector<wire::Request> queue_;
  size_t queued_bytes_ = 0;
};

}  // namespace baton::batch
