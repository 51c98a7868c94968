// KvSink over any link: the pure Receiver, and the copying or checking of bytes. One owner thread
// (the rank's). Fault points: transfer.copy (reached before each piece that is pulled),
// transfer.copy.cut (cuts the connection instead of that piece), transfer.take (before each piece
// that was pushed).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/transfer/link.h"
#include "src/transfer/receiver.h"
#include "src/transfer/transfer.h"

namespace baton::transfer {

class Sink : public KvSink {
 public:
  // The pool in `local` and the clock outlive the sink.
  Sink(const LocalRank& local, std::unique_ptr<ReceiverLink> link, const Clock* clock,
       ReceiverLimits limits = {});

  Result<uint64_t> Start(const FetchSpec& fetch) override;
  void Abort(uint64_t fetch, const std::string& reason) override;
  std::vector<FetchEnded> Poll() override;

 private:
  using LegKey = std::pair<uint64_t, uint32_t>;  // fetch, owner rank

  Result<std::vector<PeerId>> Connect(const std::vector<wire::RankEndpoint>& endpoints);
  // Closes connections that nobody uses when too many are open.
  void Trim();
  void OnData(const LinkEvent& event);
  Status TakeData(const LinkEvent& event, const Receiver::Copy& copy);
  void PullSome();
  // Bytes copied; 0 when the leg failed.
  uint64_t PullPiece(const Receiver::Copy& copy);
  void SendAll();

  const LocalRank local_;
  std::unique_ptr<ReceiverLink> link_;
  const Clock* clock_;
  Receiver receiver_;
  std::set<PeerId> peers_;
  // Offsets that arrived, of legs that are pushed; pieces may overtake each other.
  std::map<LegKey, std::set<uint64_t>> arrived_;
  size_t turn_ = 0;
};

}  // namespace baton::transfer
