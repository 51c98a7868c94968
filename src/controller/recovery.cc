#include "src/controller/recovery.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/log.h"
#include "src/wire/codec.h"

namespace baton::controller {

namespace {
constexpr Nanos kWatermarksTimeout = std::chrono::seconds(10);
constexpr int kRecordsPerStep = 4096;
}  // namespace

Result<bool> Recovery::Step(Nanos wait) {
  switch (stage_) {
    case Stage::kOpen:
      BATON_RETURN_IF_ERROR(Open());
      break;
    case Stage::kLedger:
      BATON_RETURN_IF_ERROR(ReadLedger(wait));
      break;
    case Stage::kClaim:
      BATON_RETURN_IF_ERROR(Claim());
      break;
    case Stage::kOpenResults:
      BATON_RETURN_IF_ERROR(OpenResults());
      break;
    case Stage::kResults:
      BATON_RETURN_IF_ERROR(ReadResults(wait));
      break;
    case Stage::kFinished:
      break;
  }
  return stage_ == Stage::kFinished;
}

Status Recovery::Open() {
  ASSIGN_OR_RETURN(Reader reader, Reader::Create(bus_, "ledger", {{topics_.Ledger(), 0, 0}}));
  reader_.emplace(std::move(reader));
  ASSIGN_OR_RETURN(const bus::Watermarks marks,
                   reader_->consumer().GetWatermarks(topics_.Ledger(), 0, kWatermarksTimeout));
  if (marks.low > 0) {
    BATON_RETURN_IF_ERROR(reader_->consumer().Assign({{topics_.Ledger(), 0, marks.low}}));
  }
  next_ = marks.low;
  high_ = marks.high;
  stage_ = Stage::kLedger;
  return OkStatus();
}

Status Recovery::ReadLedger(Nanos wait) {
  for (int i = 0; i < kRecordsPerStep && next_ < high_; ++i) {
    ASSIGN_OR_RETURN(const std::optional<bus::Record> record, reader_->Poll(wait));
    if (reader_->losses() > 0) {
      return DataLossError("the ledger lost records while it was read; start again");
    }
    if (!record) return OkStatus();
    next_ = record->offset + 1;
    ++records_;
    TakeLedgerRecord(*record);
  }
  if (next_ >= high_) stage_ = claimed_ ? Stage::kOpenResults : Stage::kClaim;
  return OkStatus();
}

void Recovery::TakeLedgerRecord(const bus::Record& record) {
  if (!record.value) return into_.ledger->RestoreTombstone(record.key);
  Result<wire::LedgerRecord> decoded = wire::DecodeLedger(*record.value);
  if (!decoded.ok()) {
    LOG(kError, "ledger offset {}: {}", record.offset, decoded.status().message());
    ++stale_;
    return;
  }
  if (const auto* claim = std::get_if<wire::LedgerClaim>(&*decoded)) {
    highest_ = std::max(highest_, claim->controller_epoch);
    // A claim below one that stands before it is a late one: log order decides.
    if (claim->controller_epoch > current_) {
      current_ = claim->controller_epoch;
    }
    return;
  }
  const ControllerEpoch of = std::visit([](const auto& r) { return r.controller_epoch; }, *decoded);
  if (of != current_) {
    ++stale_;
    return;
  }
  if (const auto* request = std::get_if<wire::LedgerRequest>(&*decoded)) {
    into_.ledger->Restore(*request);
  } else if (const auto* position = std::get_if<wire::LedgerPosition>(&*decoded)) {
    Positions* const to = position->topic == topics_.Results() ? into_.results : into_.inputs;
    to->Start(position->topic, position->partition, position->offset);
    into_.ledger->PositionStored(position->topic, position->partition, position->offset);
  } else if (const auto* instance = std::get_if<wire::LedgerInstance>(&*decoded)) {
    into_.instances->Restore(*instance, clock_->Now());
  }
}

Status Recovery::Claim() {
  if (!claimed_) {
    claimed_ = true;
    epoch_ = ControllerEpoch(highest_.value + 1);
    const wire::LedgerClaim claim{epoch_, uuid_, host_, clock_->WallNow().ms};
    return producer_->Produce(
        {topics_.Ledger(), 0, fmt::format("claim/{}", epoch_.value), wire::Encode(claim), {}},
        [this](const bus::Delivery& delivery) { claim_ = delivery; });
  }
  if (!claim_) return OkStatus();
  BATON_RETURN_IF_ERROR(claim_->status.WithContext("claim"));
  high_ = claim_->offset + 1;
  stage_ = Stage::kLedger;
  return OkStatus();
}

Status Recovery::OpenResults() {
  if (current_ != epoch_) {
    return AbortedError(fmt::format("another controller claimed epoch {}, ours is {}",
                                    current_.value, epoch_.value));
  }
  std::vector<bus::StartPoint> starts;
  for (int32_t partition = 0; partition < wire::Topics::kResultPartitions; ++partition) {
    ASSIGN_OR_RETURN(
        const bus::Watermarks marks,
        reader_->consumer().GetWatermarks(topics_.Results(), partition, kWatermarksTimeout));
    const int64_t checkpoint = into_.results->Get(topics_.Results(), partition);
    if (checkpoint >= 0 && checkpoint < marks.low) {
      return DataLossError(fmt::format(
          "{}[{}]: the checkpoint {} lies below the oldest record {}: what finished meanwhile is "
          "unknown, so nothing is run again",
          topics_.Results(), partition, checkpoint, marks.low));
    }
    const int64_t start = std::max(checkpoint, marks.low);
    if (start >= marks.high) continue;
    starts.push_back({topics_.Results(), partition, start});
    results_[partition] = {start, marks.high};
  }
  if (starts.empty()) {
    stage_ = Stage::kFinished;
    return OkStatus();
  }
  ASSIGN_OR_RETURN(Reader reader, Reader::Create(bus_, "results", starts));
  reader_.emplace(std::move(reader));
  stage_ = Stage::kResults;
  return OkStatus();
}

Status Recovery::ReadResults(Nanos wait) {
  for (int i = 0; i < kRecordsPerStep; ++i) {
    const bool finished = std::all_of(results_.begin(), results_.end(), [](const auto& item) {
      return item.second.first >= item.second.second;
    });
    if (finished) {
      stage_ = Stage::kFinished;
      return OkStatus();
    }
    ASSIGN_OR_RETURN(const std::optional<bus::Record> record, reader_->Poll(wait));
    if (reader_->losses() > 0) {
      return DataLossError("results were lost while they were read; start again");
    }
    if (!record) return OkStatus();
    results_[record->partition].first = record->offset + 1;
    ++records_;
    if (!record->value) continue;
    const Result<wire::ResultRecord> result = wire::DecodeResult(*record->value);
    if (!result.ok()) {
      LOG(kError, "{}[{}] offset {}: {}", record->topic, record->partition, record->offset,
          result.status().message());
      continue;
    }
    if (result->kind != wire::ResultKind::kTerminal) continue;
    into_.results->Read(record->topic, record->partition, record->offset);
    ledger::Effects seen = into_.ledger->TerminalSeen(*result, record->partition, record->offset,
                                                      clock_->WallNow().ms);
    std::move(seen.begin(), seen.end(), std::back_inserter(effects_));
  }
  return OkStatus();
}

}  // namespace baton::controller
