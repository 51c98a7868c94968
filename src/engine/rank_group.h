// The leader's view of its ranks: plans go out, reports come back. LocalRanks holds them in this
// process; links to other processes implement the same interface. One owner, the leader's thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/engine/plan.h"
#include "src/engine/rank_worker.h"

namespace baton::engine {

class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual uint32_t size() const = 0;
  // One per rank; empty when there is no hand-off.
  virtual std::vector<wire::RankEndpoint> endpoints() const = 0;
  // To every rank, in order. An error means that a rank is lost; it names it.
  virtual Status Send(const Plan& plan) = 0;
  // Reports that arrived since the last call, of any ranks.
  virtual Result<std::vector<RankReport>> Poll() = 0;
};

class LocalRanks : public RankGroup {
 public:
  struct Member {
    std::unique_ptr<RankWorker> worker;
    std::string endpoint;  // empty: no hand-off
  };
  explicit LocalRanks(std::vector<Member> members) : members_(std::move(members)) {}

  uint32_t size() const override { return static_cast<uint32_t>(members_.size()); }

  std::vector<wire::RankEndpoint> endpoints() const override {
    std::vector<wire::RankEndpoint> all;
    for (const Member& member : members_) {
      if (!member.endpoint.empty()) all.push_back({member.worker->rank().value, member.endpoint});
    }
    return all;
  }

  Status Send(const Plan& plan) override {
    for (Member& member : members_) BATON_RETURN_IF_ERROR(member.worker->Apply(plan));
    return OkStatus();
  }

  Result<std::vector<RankReport>> Poll() override {
    std::vector<RankReport> reports;
    for (Member& member : members_) {
      ASSIGN_OR_RETURN(RankReport report, member.worker->Poll());
      reports.push_back(std::move(report));
    }
    return reports;
  }

 private:
  std::vector<Member> members_;
};

}  // namespace baton::engine
