#include "src/controller/copies.h"

#include <utility>

#include "src/base/log.h"
#include "src/wire/codec.h"

namespace baton::controller {

namespace {

constexpr Nanos kReadTimeout = std::chrono::seconds(5);

// What a repeat hears when the original is no longer there.
wire::ResultRecord Lost(const Identity& id, ControllerEpoch epoch, const std::string& why) {
  wire::ResultRecord record;
  record.id = id;
  record.outcome = wire::Outcome::kError;
  record.controller_epoch = epoch;
  record.output.finish = wire::FinishReason::kError;
  record.error = wire::ErrorInfo{StatusCode::kDataLoss,
                                 "the request was finished before, but its stored result cannot be "
                                 "read: " +
                                     why,
                                 false};
  return record;
}

}  // namespace

Result<bool> Copies::Step(MonoTime now, ControllerEpoch epoch, const Emit& emit) {
  if (jobs_.empty()) return false;
  const Job& job = jobs_.front();
  if (!reading_) {
    BATON_RETURN_IF_ERROR(
        consumer_->Assign({{topic_, job.copy.partition, job.copy.offset}}).WithContext("copies"));
    reading_ = true;
    give_up_ = now + kReadTimeout;
  }
  Result<std::optional<bus::Record>> polled = consumer_->Poll(Nanos::zero());
  if (!polled.ok() && polled.status().code() != StatusCode::kDataLoss) return polled.status();
  if (!polled.ok()) {
    Finish(Lost(job.id, epoch, polled.status().message()), emit);
    return true;
  }
  if (!polled->has_value()) {
    if (now < give_up_) return false;
    Finish(Lost(job.id, epoch, "not there within 5 s"), emit);
    return true;
  }
  const bus::Record& record = **polled;
  Result<wire::ResultRecord> original =
      record.value ? wire::DecodeResult(*record.value)
                   : Result<wire::ResultRecord>(DataLossError("the record is a tombstone"));
  if (record.offset != job.copy.offset) original = DataLossError("another record is in its place");
  if (original.ok() && original->id != job.id) original = DataLossError("it is another request's");
  Finish(original.ok() ? std::move(*original) : Lost(job.id, epoch, original.status().message()),
         emit);
  return true;
}

void Copies::Finish(wire::ResultRecord record, const Emit& emit) {
  const Job job = std::move(jobs_.front());
  jobs_.pop_front();
  reading_ = false;
  record.kind = wire::ResultKind::kCopy;
  record.original_partition = job.copy.partition;
  record.original_offset = job.copy.offset;
  record.correlation_id = job.copy.correlation_id;
  if (record.error && record.error->code == StatusCode::kDataLoss) {
    LOG(kWarning, "copy for {}: {}", job.id.Key(), record.error->message);
  }
  emit(job.id, job.copy.reply_topic.empty() ? topic_ : job.copy.reply_topic, std::move(record));
}

}  // namespace baton::controller
