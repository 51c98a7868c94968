#include "src/instance/instance.h"

#include <unistd.h>

#include <memory>
#include <numeric>
#include <utility>

#include "src/backend/factory.h"
#include "src/base/log.h"
#include "src/model/loader.h"
#include "src/text/tokenizer.h"
#include "src/transfer/transfer.h"

namespace baton::instance {
namespace {

wire::Layout LayoutOf(const model::Config& model, const backend::BackendOptions& options) {
  wire::Layout layout;
  layout.layers_per_stage = {model.layers};
  layout.layers = model.layers;
  layout.heads = model.heads;
  layout.kv_heads = model.kv_heads;
  layout.head_dim = model.head_dim;
  layout.block_tokens = options.block_tokens;
  layout.kv_dtype = backend::DTypeName(options.dtype);
  layout.weights_hash = model.weights_hash;
  layout.rope = model.RopeText();
  return layout;
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

wire::Registration RegistrationOf(const InstanceOptions& options, const model::Config& model,
                                  const wire::Layout& layout) {
  wire::Registration registration;
  registration.instance = options.name;
  registration.role = options.role;
  registration.model = model.name;
  registration.layout = layout;
  registration.max_running = options.max_running;
  registration.max_bytes = options.max_bytes;
  registration.max_model_tokens = model.context;
  registration.kv_blocks = options.backend_options.kv_blocks;
  registration.host = HostName();
  return registration;
}

}  // namespace

Status RunInstanceRank(const InstanceOptions& options, bus::Bus* bus, Clock* clock,
                       const std::atomic<bool>& stop) {
  const MonoTime started = clock->Now();
  ASSIGN_OR_RETURN(std::unique_ptr<model::Model> model, model::LoadModel(options.model_path));
  if (!options.model_name.empty()) model->config().name = options.model_name;
  const model::Config& config = model->config();
  ASSIGN_OR_RETURN(const std::unique_ptr<text::Tokenizer> tokenizer,
                   text::Tokenizer::Create(model->tokenizer()));

  const backend::KvShape shape = backend::ShapeFor(config, options.backend_options);
  ASSIGN_OR_RETURN(const std::unique_ptr<transfer::HostPool> pool,
                   transfer::HostPool::Create(options.name, shape.pool_bytes()));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<backend::Backend> backend,
      backend::MakeBackend(options.backend, model.get(), options.backend_options, pool->buffer()));
  LOG(kInfo, "{}: {} layers, {} backend in {}, {} KV blocks ({} MiB), ready in {} ms", config.name,
      config.layers, options.backend, backend::DTypeName(options.backend_options.dtype),
      shape.blocks, shape.pool_bytes() >> 20,
      std::chrono::duration_cast<Millis>(clock->Now() - started).count());

  const wire::Layout layout = LayoutOf(config, options.backend_options);
  LeaderOptions leader_options;
  leader_options.topics = options.topics;
  leader_options.registration = RegistrationOf(options, config, layout);
  leader_options.heartbeat_interval = options.heartbeat_interval;
  leader_options.drain_timeout = options.drain_timeout;
  ASSIGN_OR_RETURN(const std::unique_ptr<Leader> leader,
                   Leader::Create(leader_options, bus, clock));
  Result<wire::Grant> grant = leader->Register(stop);
  if (!grant.ok()) {
    return grant.status().code() == StatusCode::kCancelled ? OkStatus() : grant.status();
  }

  // The epoch goes into every descriptor, so transport and executor are made after the grant.
  transfer::LocalRank local{options.name, grant->instance_epoch, 0, layout, pool->buffer(), shape};
  ASSIGN_OR_RETURN(
      transfer::TransportPair transports,
      transfer::MakeTransport(options.transport, local, pool->fd(), options.folder, clock));
  ASSIGN_OR_RETURN(const std::unique_ptr<engine::Executor> executor,
                   engine::Executor::Create(options.engine, backend.get(), tokenizer.get(),
                                            std::move(transports), local, clock));
  const Status served = leader->Serve(*grant, {executor.get(), &config, tokenizer.get()}, stop);
  executor->Shutdown(/*drain=*/false, options.drain_timeout);
  return served;
}

}  // namespace baton::instance
