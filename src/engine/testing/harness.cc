#include "src/engine/testing/harness.h"

#include <fmt/format.h>

namespace baton::engine::testing {

Result<std::vector<RankReport>> FaultyRanks::Poll() {
  ASSIGN_OR_RETURN(std::vector<RankReport> reports, LocalRanks::Poll());
  for (RankReport& report : reports) {
    const uint32_t rank = report.rank.value;
    if (mute_votes.contains(rank)) report.votes.clear();
    for (const Vote& vote : report.votes) held_.emplace_back(rank, vote);
    report.votes.clear();
    std::erase_if(held_, [&](const auto& one) {
      if (one.first != rank || slow_votes.contains(rank)) return false;
      report.votes.push_back(one.second);
      return true;
    });
    if (!wrong_digest.contains(rank)) continue;
    for (StepReport& step : report.steps) step.digest ^= 1;
  }
  return reports;
}

Harness::Harness(const HarnessOptions& opts)
    : options(opts), clock(opts.clock != nullptr ? opts.clock : &own_clock) {
  std::vector<LocalRanks::Member> members;
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    tiny.push_back(std::make_unique<TinyBackend>(options.tiny));
    delayed.push_back(std::make_unique<DelayedBackend>(tiny.back().get(), options.delay,
                                                       options.seed * 31 + rank));
    LocalRanks::Member member;
    MemorySource* source = nullptr;
    MemorySink* sink = nullptr;
    if (options.fabric != nullptr) {
      member.endpoint = fmt::format("memory:{}/{}", options.instance, rank);
      const backend::Buffer pool = tiny.back()->kv_pool();
      const backend::KvShape shape = tiny.back()->kv_shape();
      sources.push_back(
          std::make_unique<MemorySource>(options.fabric, member.endpoint, pool, shape, clock));
      sinks.push_back(std::make_unique<MemorySink>(options.fabric, rank, pool, shape, clock,
                                                   options.seed * 77 + rank));
      source = sources.back().get();
      sink = sinks.back().get();
    }
    member.worker =
        std::make_unique<RankWorker>(Rank(rank), delayed.back().get(), source, sink, clock);
    workers.push_back(member.worker.get());
    members.push_back(std::move(member));
  }
  ranks = std::make_unique<FaultyRanks>(std::move(members));
  EngineParts parts;
  parts.options = options.exec;
  parts.ranks = ranks.get();
  parts.request_limits = {.vocab = options.tiny.vocab,
                          .context = options.tiny.context,
                          .block_tokens = options.tiny.block_tokens,
                          .blocks = options.tiny.blocks,
                          .has_text = false,
                          .has_transport = options.fabric != nullptr};
  parts.step_limits = options.tiny.limits;
  parts.instance = options.instance;
  parts.instance_epoch = InstanceEpoch(1);
  parts.layout.block_tokens = options.tiny.block_tokens;
  parts.layout.weights_hash = "tiny";
  core = std::make_unique<EngineCore>(std::move(parts), [this](ExecResponse response) {
    responses[response.id].push_back(std::move(response));
  });
}

ExecId Harness::Add(ExecRequest request) {
  CHECK_OK(CheckRequest(request, {.vocab = options.tiny.vocab,
                                  .context = options.tiny.context,
                                  .block_tokens = options.tiny.block_tokens,
                                  .blocks = options.tiny.blocks,
                                  .has_text = false,
                                  .has_transport = options.fabric != nullptr}));
  core->Add(next_, std::move(request), clock->Now());
  return next_++;
}

bool Harness::Drain(int turns_max) {
  for (int turn = 0; turn < turns_max; ++turn) {
    if (!core->health().ok()) return true;
    Turn();
    if (core->idle()) return true;
  }
  return false;
}

const ExecResponse* Harness::Final(ExecId id) const {
  const auto it = responses.find(id);
  if (it == responses.end() || !it->second.back().final) return nullptr;
  return &it->second.back();
}

std::vector<int32_t> Harness::Tokens(ExecId id) const {
  std::vector<int32_t> tokens;
  const auto it = responses.find(id);
  if (it == responses.end()) return tokens;
  for (const ExecResponse& response : it->second) {
    tokens.insert(tokens.end(), response.tokens.begin(), response.tokens.end());
  }
  return tokens;
}

std::string Harness::Leaks() const {
  const ExecStats stats = core->stats();
  std::string left;
  if (stats.blocks_used != 0) left += fmt::format("{} blocks in use; ", stats.blocks_used);
  if (stats.blocks_free + stats.blocks_cached != stats.blocks_total) left += "blocks are missing; ";
  if (stats.blocks_cached != core->scheduler().cache().indexed_blocks()) {
    left += "the index and the cached blocks disagree; ";
  }
  if (stats.leases_open + stats.fetches_open != 0) left += "transfers are open; ";
  if (core->votes().size() != 0) left += fmt::format("{} votes awaited; ", core->votes().size());
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    const size_t sequences = workers[rank]->sequences();
    if (sequences != 0) left += fmt::format("rank {} holds {} sequences; ", rank, sequences);
    if (tiny[rank]->open_sequences() != 0) left += "a backend holds sequences; ";
    if (workers[rank]->transfers_open()) left += "a rank has a transfer open; ";
  }
  return left;
}

uint64_t Harness::blocks_moved() const {
  uint64_t moved = 0;
  for (const auto& sink : sinks) moved += sink->blocks_moved();
  return moved;
}

}  // namespace baton::engine::testing
