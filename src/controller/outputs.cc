// What goes out. Records are produced from the controller's thread; their acknowledgements are
// collected during Poll() and handled outside of it, in order.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/log.h"
#include "src/controller/controller.h"
#include "src/wire/codec.h"

namespace baton::controller {

namespace {

// The broker was out of reach for longer than the producer waits. Whether the record arrived is
// unknown; a new controller finds out by reading.
bool IsTransient(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded || status.code() == StatusCode::kAborted ||
         status.code() == StatusCode::kCancelled;
}

bus::Headers HeadersOf(const wire::ResultRecord& record) {
  bus::Headers headers = {{"content-type", "application/x-flatbuffers"},
                          {"tenant", record.id.tenant}};
  if (!record.correlation_id.empty()) {
    headers.emplace_back("correlation-id", record.correlation_id);
  }
  return headers;
}

std::pair<std::string, std::string> StageAndMessage(const std::string& text) {
  const size_t colon = text.find(": ");
  if (colon == std::string::npos || colon > 16) return {"meaning", text};
  return {text.substr(0, colon), text.substr(colon + 2)};
}

}  // namespace

void Controller::Send(bus::OutRecord record, Ack ack) {
  ack.what = record.topic + " " + record.key;
  if (!backlog_.empty()) {
    backlog_.push_back({std::move(record), std::move(ack)});
    return;
  }
  Produce(std::move(record), std::move(ack));
}

void Controller::Produce(bus::OutRecord record, Ack ack) {
  const auto shared = std::make_shared<Ack>(std::move(ack));
  ++outstanding_;
  const Status status = producer_->Produce(record, [this, shared](const bus::Delivery& delivery) {
    --outstanding_;
    shared->delivery = delivery;
    acks_.push_back(std::move(*shared));
  });
  if (status.ok()) return;
  --outstanding_;
  if (status.code() == StatusCode::kResourceExhausted) {
    backlog_.push_front({std::move(record), std::move(*shared)});
    return;
  }
  shared->delivery.status = status;
  acks_.push_back(std::move(*shared));
}

void Controller::SendBacklog() {
  while (!backlog_.empty()) {
    Waiting first = std::move(backlog_.front());
    backlog_.pop_front();
    const size_t left = backlog_.size();
    Produce(std::move(first.record), std::move(first.ack));
    if (backlog_.size() > left) return;  // still full
  }
}

bool Controller::RunAcks() {
  const bool did = !acks_.empty();
  while (!acks_.empty()) {
    const Ack ack = std::move(acks_.front());
    acks_.pop_front();
    if (!ack.delivery.status.ok() && IsTransient(ack.delivery.status) && fatal_.ok()) {
      fatal_ = ack.delivery.status.WithContext(ack.what);
    }
    if (!fatal_.ok()) return true;
    OnAck(ack);
  }
  return did;
}

void Controller::OnAck(const Ack& ack) {
  const Status& status = ack.delivery.status;
  switch (ack.kind) {
    case AckKind::kRecord:
      return OnRecordAck(ack);
    case AckKind::kTerminal:
      chains_.Done(ack.id);
      if (!status.ok()) return Apply(ledger::TerminalRefused{ack.id, status});
      ++stats_.results;
      results_.Read(options_.topics.Results(), ack.delivery.partition, ack.delivery.offset);
      return Apply(ledger::TerminalPublished{ack.id, ack.delivery.partition, ack.delivery.offset});
    case AckKind::kReply:
      if (!status.ok()) {
        ++stats_.lost_replies;
        LOG(kWarning, "{}: {}", ack.what, status.ToString());
      }
      return chains_.Done(ack.id);
    case AckKind::kAssignment:
      if (status.ok()) return;
      LOG(kWarning, "{}: {}", ack.what, status.ToString());
      instances_->Release(ack.to, ack.phase);
      return Apply(ledger::AssignmentRefused{ack.to, status});
    case AckKind::kDead:
      if (!status.ok()) LOG(kError, "dead letter {}: {}", ack.what, status.ToString());
      if (!ack.id.request_id.empty()) return chains_.Done(ack.id);
      if (!ack.settle.topic.empty()) {
        inputs_.Settle(ack.settle.topic, ack.settle.partition, ack.settle.offset);
      }
      return;
    case AckKind::kGrant:
      if (!status.ok()) {
        fatal_ = status.WithContext(ack.what);
        return;
      }
      if (!ack.grant) return;
      return Send({options_.topics.Assign(), 0, ack.grant->instance, wire::Encode(*ack.grant), {}},
                  {});
    case AckKind::kOther:
      if (!status.ok()) LOG(kError, "{}: {}", ack.what, status.ToString());
      return;
  }
}

void Controller::OnRecordAck(const Ack& ack) {
  if (ack.delivery.status.ok()) return chains_.Done(ack.id);
  LOG(kWarning, "{}: {}", ack.what, ack.delivery.status.ToString());
  // What was to follow is void, but what the inputs told is still to be settled, at the end.
  ledger::Effects settles;
  for (ledger::Action& action : chains_.Refused(ack.id)) {
    if (const auto* sent = std::get_if<ledger::SendAssignment>(&action)) {
      instances_->Release(sent->assignment.to, sent->assignment.phase);
    } else if (std::holds_alternative<ledger::Settle>(action)) {
      settles.push_back({ack.id, std::move(action)});
    }
  }
  Apply(ledger::RecordRefused{ack.id, ack.delivery.status});
  chains_.Add(std::move(settles));
}

bool Controller::StartAction(const Identity& id, const ledger::Action& action) {
  return std::visit([&](const auto& a) { return Start(id, a); }, action);
}

bool Controller::Start(const Identity& id, const ledger::WriteRecord& action) {
  Send({options_.topics.Ledger(), 0, ledger::KeyOf(action.record), wire::Encode(action.record), {}},
       {.kind = AckKind::kRecord, .id = id});
  return false;
}

bool Controller::Start(const Identity&, const ledger::WriteTombstone& action) {
  Send({options_.topics.Ledger(), 0, action.key, std::nullopt, {}}, {});
  return true;
}

bool Controller::Start(const Identity& id, const ledger::SendAssignment& action) {
  const wire::Address& to = action.assignment.to;
  // A life that is over reads nothing; its slot may be another's.
  if (!instances_->Alive(to.instance, to.instance_epoch)) return true;
  const auto slot = static_cast<int32_t>(instances_->Find(to.instance)->slot.value);
  Ack ack;
  if (action.assignment.kind == wire::AssignmentKind::kRun) {
    ack.kind = AckKind::kAssignment;
    ack.to = to;
    ack.phase = action.assignment.phase;
  }
  Send({options_.topics.Assign(),
        slot,
        id.request_id.empty() ? to.instance : id.Key(),
        wire::Encode(action.assignment),
        {}},
       std::move(ack));
  return true;
}

bool Controller::Start(const Identity& id, const ledger::PublishTerminal& action) {
  Send({options_.topics.Results(), bus::kPartitionByKey, id.Key(), wire::Encode(action.record),
        HeadersOf(action.record)},
       {.kind = AckKind::kTerminal, .id = id});
  return false;
}

bool Controller::Start(const Identity& id, const ledger::PublishCopy& action) {
  copies_->Add(id, action);
  return false;
}

bool Controller::Start(const Identity& id, const ledger::PublishConflict& action) {
  const auto& allowed = options_.reply_topics;
  const bool elsewhere =
      std::find(allowed.begin(), allowed.end(), action.reply_topic) != allowed.end();
  SendReply(id, elsewhere ? action.reply_topic : options_.topics.Results(), action.record);
  return false;
}

bool Controller::Start(const Identity& id, const ledger::WriteDeadLetter& action) {
  wire::DeadLetter letter;
  letter.stage = action.stage;
  letter.code = action.code;
  letter.message = action.message;
  letter.topic = action.source.topic;
  letter.partition = action.source.partition;
  letter.offset = action.source.offset;
  letter.key = id.Key();
  letter.value = wire::Encode(action.request);
  letter.id = id;
  SendDeadLetter(std::move(letter), {.kind = AckKind::kDead, .id = id});
  return false;
}

bool Controller::Start(const Identity&, const ledger::Settle& action) {
  const ledger::Source& source = action.source;
  inputs_.Settle(source.topic, source.partition, source.offset);
  return true;
}

bool Controller::Start(const Identity&, const ledger::SettleResult& action) {
  results_.Settle(options_.topics.Results(), action.partition, action.offset);
  return true;
}

// Copies and conflicts: the chain goes on when they are acknowledged or can never be.
void Controller::SendReply(const Identity& id, const std::string& topic,
                           const wire::ResultRecord& record) {
  ++stats_.copies;
  Send({topic, bus::kPartitionByKey, id.Key(), wire::Encode(record), HeadersOf(record)},
       {.kind = AckKind::kReply, .id = id});
}

void Controller::BuryRecord(const bus::Record& record, const Status& why, bool settle) {
  wire::DeadLetter letter;
  std::tie(letter.stage, letter.message) = StageAndMessage(why.message());
  letter.code = std::string(StatusCodeName(why.code()));
  letter.topic = record.topic;
  letter.partition = record.partition;
  letter.offset = record.offset;
  letter.key = record.key;
  letter.value = record.value.value_or("");
  letter.headers = record.headers;
  LOG(kWarning, "{}[{}] offset {} goes to the dead letters: {}", record.topic, record.partition,
      record.offset, why.ToString());
  Ack ack{.kind = AckKind::kDead};
  if (settle) ack.settle = {record.topic, record.partition, record.offset};
  SendDeadLetter(std::move(letter), std::move(ack));
}

void Controller::SendDeadLetter(wire::DeadLetter letter, Ack ack) {
  constexpr size_t kRoomForTheRest = 64u << 10;
  constexpr size_t kMessageMax = 512;
  ++stats_.dead_letters;
  letter.controller_epoch = ledger_->epoch();
  letter.message = letter.message.substr(0, kMessageMax);
  if (letter.value.size() + kRoomForTheRest > wire::kMessageBytesMax) {
    letter.value.resize(wire::kMessageBytesMax - kRoomForTheRest);
    letter.message = ("cut to fit; " + letter.message).substr(0, kMessageMax);
  }
  if (letter.key.size() > kRoomForTheRest / 4) letter.key.resize(kRoomForTheRest / 4);
  std::string key = letter.id ? letter.id->Key() : "";
  Send({options_.topics.Dead(), 0, std::move(key), wire::Encode(letter), {}}, std::move(ack));
}

void Controller::WriteInstance(const wire::LedgerInstance& record,
                               std::optional<wire::Grant> grant) {
  wire::LedgerInstance now = record;
  now.controller_epoch = ledger_->epoch();
  Send({options_.topics.Ledger(), 0, "inst/" + now.registration.instance, wire::Encode(now), {}},
       {.kind = AckKind::kGrant, .grant = std::move(grant)});
}

void Controller::WritePositions() {
  const auto write = [this](const Positions::Position& moved) {
    const wire::LedgerPosition record{moved.topic, moved.partition, moved.offset, ledger_->epoch()};
    Send({options_.topics.Ledger(),
          0,
          fmt::format("pos/{}/{}", moved.topic, moved.partition),
          wire::Encode(record),
          {}},
         {});
    ledger_->PositionStored(moved.topic, moved.partition, moved.offset);
  };
  for (const Positions::Position& moved : inputs_.TakeMoved()) write(moved);
  for (const Positions::Position& moved : results_.TakeMoved()) write(moved);
}

}  // namespace baton::controller
