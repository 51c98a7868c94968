// Executor::Create: one rank in this process, with the model's own tokenizer.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "src/engine/executor_core.h"

namespace baton::engine {
namespace {

class TextDecoder : public TokenDecoder {
 public:
  explicit TextDecoder(const text::Tokenizer* tokenizer) : stream_(tokenizer) {}
  std::string Push(int32_t token) override { return stream_.Push(token); }
  std::string Finish() override { return stream_.Finish(); }

 private:
  text::StreamDecoder stream_;
};

Status CheckOptions(const ExecOptions& options, backend::Backend* backend) {
  if (backend->limits().rows_max == 0 || backend->limits().tokens_max == 0) {
    return InvalidArgumentError("the backend takes no rows or no tokens");
  }
  if (options.queue_max == 0 || options.running_max == 0 || options.step_tokens_max == 0) {
    return InvalidArgumentError("queue_max, running_max and step_tokens_max must be 1 or more");
  }
  if (options.vote_deadline <= Nanos::zero() || options.step_deadline <= Nanos::zero() ||
      options.offer_timeout <= Nanos::zero() || options.transfer_timeout <= Nanos::zero()) {
    return InvalidArgumentError("time-outs must be above zero");
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<Executor>> Executor::Create(const ExecOptions& options,
                                                   backend::Backend* backend,
                                                   const text::Tokenizer* tokenizer,
                                                   transfer::TransportPair transports,
                                                   const transfer::LocalRank& local, Clock* clock) {
  BATON_RETURN_IF_ERROR(CheckOptions(options, backend));
  if (local.rank != 0) {
    return InvalidArgumentError(
        fmt::format("an executor of one rank cannot be rank {} of its instance", local.rank));
  }
  ExecutorParts parts;
  parts.clock = clock;
  parts.transports = std::move(transports);
  EngineParts& engine = parts.engine;
  engine.options = options;
  engine.step_limits = backend->limits();
  engine.instance = local.instance;
  engine.instance_epoch = local.instance_epoch;
  engine.layout = local.layout;
  const bool handoff = parts.transports.source != nullptr && parts.transports.sink != nullptr;
  engine.request_limits = {.vocab = backend->config().vocab,
                           .context = backend->config().context,
                           .block_tokens = backend->kv_shape().block_tokens,
                           .blocks = backend->kv_shape().blocks,
                           .has_text = tokenizer != nullptr,
                           .has_transport = handoff};
  if (tokenizer != nullptr) {
    engine.make_decoder = [tokenizer] { return std::make_unique<TextDecoder>(tokenizer); };
  }
  std::vector<LocalRanks::Member> members;
  members.push_back({std::make_unique<RankWorker>(Rank(0), backend, parts.transports.source.get(),
                                                  parts.transports.sink.get(), clock),
                     handoff ? parts.transports.source->endpoint() : ""});
  parts.ranks = std::make_unique<LocalRanks>(std::move(members));
  return MakeExecutor(std::move(parts));
}

}  // namespace baton::engine
