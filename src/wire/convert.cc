#include "src/wire/convert.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "src/base/check.h"

namespace baton::wire::internal {

static_assert(FLATBUFFERS_LITTLEENDIAN, "vectors are copied as they lie");
// The enums of messages.h are cast to those of the schemas; Reader::Enum checks the way back.
static_assert(static_cast<int>(RequestKind::kGenerationOnly) ==
              static_cast<int>(fb::RequestKind::MAX));
static_assert(static_cast<int>(Priority::kBatch) == static_cast<int>(fb::Priority::MAX));
static_assert(static_cast<int>(FinishReason::kError) == static_cast<int>(fb::FinishReason::MAX));
static_assert(static_cast<int>(Role::kMixed) == static_cast<int>(fb::Role::MAX));
static_assert(static_cast<int>(StatusCode::kInternal) == static_cast<int>(fb::Code::MAX));
static_assert(static_cast<int>(StatusCode::kAborted) == static_cast<int>(fb::Code::Aborted));

namespace {

constexpr size_t kHashBytes = 16;
constexpr uint32_t kRanksMax = 4096;  // of one instance, per axis

fb::TokenLogprob ToPair(const TokenLogprob& pair) { return {pair.token, pair.logprob}; }
TokenLogprob FromPair(const fb::TokenLogprob* pair) { return {pair->token(), pair->logprob(), {}}; }

void CheckLayout(Reader& r, const Layout& layout) {
  if (layout.tp == 0 || layout.tp > kRanksMax || layout.pp == 0 || layout.pp > kRanksMax) {
    r.Fail(fmt::format("layout: tp {} x pp {} is out of range", layout.tp, layout.pp));
  }
  if (layout.block_tokens == 0) r.Fail("layout: block_tokens is 0");
  if (layout.layers_per_stage.empty()) return;
  const uint64_t sum =
      std::accumulate(layout.layers_per_stage.begin(), layout.layers_per_stage.end(), uint64_t{0});
  if (layout.layers_per_stage.size() != layout.pp || sum != layout.layers) {
    r.Fail(fmt::format("layout: {} stages with {} layers in all, but pp {} and {} layers",
                       layout.layers_per_stage.size(), sum, layout.pp, layout.layers));
  }
}

std::vector<std::string> SplitHashes(Reader& r, const Vector<uint8_t>* bytes) {
  const std::string all = r.Bytes(bytes);
  if (all.size() % kHashBytes != 0) r.Fail("handoff: block_hashes is no multiple of 16 bytes");
  std::vector<std::string> hashes;
  hashes.reserve(all.size() / kHashBytes);
  for (size_t at = 0; at + kHashBytes <= all.size(); at += kHashBytes) {
    hashes.push_back(all.substr(at, kHashBytes));
  }
  return hashes;
}

std::string JoinHashes(const std::vector<std::string>& hashes) {
  std::string all;
  all.reserve(hashes.size() * kHashBytes);
  for (const std::string& hash : hashes) {
    CHECK(hash.size() == kHashBytes, "HandoffDescriptor::block_hashes: 16 bytes each");
    all += hash;
  }
  return all;
}

}  // namespace

// ------------------------------------------------------------------------------- Reader

std::string Reader::Text(const flatbuffers::String* text) {
  if (text == nullptr || !Spend(text->size())) return {};
  return text->str();
}

std::string Reader::Bytes(const Vector<uint8_t>* bytes) {
  if (bytes == nullptr || !Spend(bytes->size())) return {};
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

bool Reader::Spend(size_t bytes) {
  if (bytes > bytes_left_) {
    Fail("parts refer to the same bytes again and again");
    return false;
  }
  bytes_left_ -= bytes;
  return true;
}

void Reader::Fail(std::string what) {
  if (status_.ok()) status_ = InvalidArgumentError("meaning: " + what);
}

void Reader::FailEnum(std::string_view name, unsigned value) {
  Fail(fmt::format("{}: {} is no known value", name, value));
}

// ------------------------------------------------------------------------------- primitives

Offset<flatbuffers::String> ToText(Builder& b, std::string_view text) {
  return text.empty() ? Offset<flatbuffers::String>() : b.CreateString(text.data(), text.size());
}

Offset<Vector<uint8_t>> ToBytes(Builder& b, std::string_view bytes) {
  if (bytes.empty()) return {};
  return b.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

Offset<fb::Identity> To(Builder& b, const Identity& id) {
  const auto tenant = ToText(b, id.tenant);
  const auto request_id = ToText(b, id.request_id);
  return fb::CreateIdentity(b, tenant, request_id);
}

Identity From(Reader& r, const fb::Identity* id) {
  if (id == nullptr) {
    r.Fail("id: missing");
    return {};
  }
  return {r.Text(id->tenant()), r.Text(id->request_id())};
}

// ------------------------------------------------------------------------------- hand-off

Offset<fb::Layout> To(Builder& b, const Layout& layout) {
  const auto layers_per_stage = ToNumbers(b, layout.layers_per_stage);
  const auto kv_dtype = ToText(b, layout.kv_dtype);
  const auto weights_hash = ToText(b, layout.weights_hash);
  const auto rope = ToText(b, layout.rope);
  return fb::CreateLayout(b, layout.tp, layout.pp, layers_per_stage, layout.layers, layout.heads,
                          layout.kv_heads, layout.head_dim, layout.block_tokens, kv_dtype,
                          weights_hash, rope);
}

Layout From(Reader& r, const fb::Layout* layout) {
  if (layout == nullptr) {
    r.Fail("layout: missing");
    return {};
  }
  Layout out{.tp = layout->tp(),
             .pp = layout->pp(),
             .layers_per_stage = r.Numbers(layout->layers_per_stage()),
             .layers = layout->layers(),
             .heads = layout->heads(),
             .kv_heads = layout->kv_heads(),
             .head_dim = layout->head_dim(),
             .block_tokens = layout->block_tokens(),
             .kv_dtype = r.Text(layout->kv_dtype()),
             .weights_hash = r.Text(layout->weights_hash()),
             .rope = r.Text(layout->rope())};
  if (r.ok()) CheckLayout(r, out);
  return out;
}

Offset<fb::Handoff> To(Builder& b, const HandoffDescriptor& handoff) {
  std::vector<Offset<fb::Endpoint>> endpoints;
  endpoints.reserve(handoff.endpoints.size());
  for (const RankEndpoint& endpoint : handoff.endpoints) {
    const auto text = ToText(b, endpoint.endpoint);
    endpoints.push_back(fb::CreateEndpoint(b, endpoint.rank, text));
  }
  const auto endpoint_vector =
      endpoints.empty() ? Offset<Vector<Offset<fb::Endpoint>>>() : b.CreateVector(endpoints);
  const auto instance = ToText(b, handoff.instance);
  const auto layout = To(b, handoff.layout);
  const auto blocks = ToNumbers(b, handoff.blocks);
  const auto hashes = ToBytes(b, JoinHashes(handoff.block_hashes));
  return fb::CreateHandoff(b, instance, handoff.instance_epoch.value, handoff.attempt.value,
                           handoff.lease, endpoint_vector, layout, handoff.tokens, blocks, hashes);
}

HandoffDescriptor From(Reader& r, const fb::Handoff* handoff) {
  if (handoff == nullptr) {
    r.Fail("handoff: missing");
    return {};
  }
  HandoffDescriptor out{.instance = r.Text(handoff->instance()),
                        .instance_epoch = InstanceEpoch(handoff->instance_epoch()),
                        .attempt = Attempt(handoff->attempt()),
                        .lease = handoff->lease(),
                        .endpoints = {},
                        .layout = From(r, handoff->layout()),
                        .tokens = handoff->tokens(),
                        .blocks = r.Numbers(handoff->blocks()),
                        .block_hashes = SplitHashes(r, handoff->block_hashes())};
  if (handoff->endpoints() != nullptr) {
    for (const fb::Endpoint* endpoint : *handoff->endpoints()) {
      out.endpoints.push_back({endpoint->rank(), r.Text(endpoint->endpoint())});
    }
  }
  if (r.ok() && out.block_hashes.size() > out.blocks.size()) {
    r.Fail(fmt::format("handoff: {} block hashes for {} blocks", out.block_hashes.size(),
                       out.blocks.size()));
  }
  return out;
}

// ------------------------------------------------------------------------------- log-probs

namespace {

// Every token of `positions` in the schema's order: the chosen ones, then the alternatives.
template <typename Positions, typename Visit>
void ForEachToken(Positions& positions, Visit visit) {
  for (auto& position : positions) visit(position.chosen);
  for (auto& position : positions) {
    for (auto& token : position.top) visit(token);
  }
}

bool ReadTexts(Reader& r, const fb::Logprobs* packed, size_t tokens,
               std::vector<PositionLogprobs>* positions) {
  const std::vector<uint16_t> sizes = r.Numbers(packed->text_sizes());
  const std::vector<uint8_t> text = r.Numbers(packed->text());
  if (sizes.empty() && text.empty()) return true;
  const size_t sum = std::accumulate(sizes.begin(), sizes.end(), size_t{0});
  if (sizes.size() != tokens || sum != text.size()) {
    r.Fail(fmt::format("logprobs: {} texts of {} bytes for {} tokens and {} bytes", sizes.size(),
                       sum, tokens, text.size()));
    return false;
  }
  size_t index = 0;
  size_t begin = 0;
  ForEachToken(*positions, [&](TokenLogprob& token) {
    token.bytes.assign(text.begin() + begin, text.begin() + begin + sizes[index]);
    begin += sizes[index++];
  });
  return true;
}

}  // namespace

Offset<fb::Logprobs> To(Builder& b, const std::vector<PositionLogprobs>& positions) {
  if (positions.empty()) return {};
  std::vector<fb::TokenLogprob> chosen;
  std::vector<fb::TokenLogprob> top;
  std::vector<uint16_t> counts;
  chosen.reserve(positions.size());
  counts.reserve(positions.size());
  for (const PositionLogprobs& position : positions) {
    CHECK(position.top.size() <= UINT16_MAX, "PositionLogprobs::top: at most 65535 entries");
    chosen.push_back(ToPair(position.chosen));
    counts.push_back(static_cast<uint16_t>(position.top.size()));
    for (const TokenLogprob& pair : position.top) top.push_back(ToPair(pair));
  }
  std::vector<uint8_t> text;
  std::vector<uint16_t> text_sizes;
  ForEachToken(positions, [&](const TokenLogprob& token) {
    CHECK(token.bytes.size() <= UINT16_MAX, "TokenLogprob::bytes: at most 65535");
    text.insert(text.end(), token.bytes.begin(), token.bytes.end());
    text_sizes.push_back(static_cast<uint16_t>(token.bytes.size()));
  });
  const auto text_vector = text.empty() ? Offset<Vector<uint8_t>>() : b.CreateVector(text);
  const auto text_size_vector =
      text.empty() ? Offset<Vector<uint16_t>>() : b.CreateVector(text_sizes);
  const auto chosen_vector = b.CreateVectorOfStructs(chosen);
  const auto count_vector = b.CreateVector(counts);
  const auto top_vector =
      top.empty() ? Offset<Vector<const fb::TokenLogprob*>>() : b.CreateVectorOfStructs(top);
  return fb::CreateLogprobs(b, chosen_vector, count_vector, top_vector, text_vector,
                            text_size_vector);
}

std::vector<PositionLogprobs> From(Reader& r, const fb::Logprobs* positions) {
  if (positions == nullptr) return {};
  const auto* chosen = positions->chosen();
  const auto* top = positions->top();
  const std::vector<uint16_t> counts = r.Numbers(positions->top_counts());
  const size_t chosen_size = chosen == nullptr ? 0 : chosen->size();
  const size_t top_size = top == nullptr ? 0 : top->size();
  const size_t sum = std::accumulate(counts.begin(), counts.end(), size_t{0});
  if (counts.size() != chosen_size || sum != top_size) {
    r.Fail(fmt::format("logprobs: {} positions, {} counts that add up to {}, {} alternatives",
                       chosen_size, counts.size(), sum, top_size));
    return {};
  }
  if (!r.Spend((chosen_size + top_size) * sizeof(fb::TokenLogprob))) return {};
  std::vector<PositionLogprobs> out(chosen_size);
  flatbuffers::uoffset_t next = 0;
  for (size_t i = 0; i < chosen_size; ++i) {
    out[i].chosen = FromPair(chosen->Get(static_cast<flatbuffers::uoffset_t>(i)));
    out[i].top.reserve(counts[i]);
    for (uint16_t k = 0; k < counts[i]; ++k) out[i].top.push_back(FromPair(top->Get(next++)));
  }
  if (!ReadTexts(r, positions, chosen_size + top_size, &out)) return {};
  return out;
}

// ------------------------------------------------------------------------------- small parts

Offset<fb::Address> To(Builder& b, const Address& address) {
  const auto id = To(b, address.id);
  const auto instance = ToText(b, address.instance);
  return fb::CreateAddress(b, id, address.attempt.value, address.controller_epoch.value, instance,
                           address.instance_epoch.value, address.lease.value);
}

Address From(Reader& r, const fb::Address* address) {
  if (address == nullptr) {
    r.Fail("address: missing");
    return {};
  }
  return {.id = From(r, address->id()),
          .attempt = Attempt(address->attempt()),
          .controller_epoch = ControllerEpoch(address->controller_epoch()),
          .instance = r.Text(address->instance()),
          .instance_epoch = InstanceEpoch(address->instance_epoch()),
          .lease = LeaseNumber(address->lease())};
}

Offset<fb::ErrorInfo> To(Builder& b, const ErrorInfo& error) {
  const auto message = ToText(b, error.message);
  return fb::CreateErrorInfo(b, static_cast<fb::Code>(error.code), message, error.client_fault);
}

ErrorInfo From(Reader& r, const fb::ErrorInfo* error) {
  if (error == nullptr) return {};
  return {.code = r.Enum<StatusCode>(error->code(), "error.code"),
          .message = r.Text(error->message()),
          .client_fault = error->client_fault()};
}

Offset<fb::Timings> To(Builder& b, const Timings& timings) {
  if (timings == Timings{}) return {};
  return fb::CreateTimings(b, timings.queue_ms, timings.context_ms, timings.transfer_ms,
                           timings.generation_ms);
}

Timings From(Reader& r, const fb::Timings* timings) {
  if (timings == nullptr) return {};
  const Timings out{.queue_ms = timings->queue_ms(),
                    .context_ms = timings->context_ms(),
                    .transfer_ms = timings->transfer_ms(),
                    .generation_ms = timings->generation_ms()};
  if (!std::isfinite(out.queue_ms) || !std::isfinite(out.context_ms) ||
      !std::isfinite(out.transfer_ms) || !std::isfinite(out.generation_ms)) {
    r.Fail("timings: not finite");
  }
  return out;
}

Offset<fb::Output> To(Builder& b, const Output& output) {
  if (output == Output{}) return {};
  const auto tokens = ToNumbers(b, output.tokens);
  const auto text = ToText(b, output.text);
  const auto stop_text = ToText(b, output.stop_text);
  const auto logprobs = To(b, output.logprobs);
  return fb::CreateOutput(b, tokens, text, static_cast<fb::FinishReason>(output.finish), stop_text,
                          logprobs, output.prompt_tokens, output.cached_tokens);
}

Output From(Reader& r, const fb::Output* output) {
  if (output == nullptr) return {};
  return {.tokens = r.Numbers(output->tokens()),
          .text = r.Text(output->text()),
          .finish = r.Enum<FinishReason>(output->finish(), "output.finish"),
          .stop_text = r.Text(output->stop_text()),
          .logprobs = From(r, output->logprobs()),
          .prompt_tokens = output->prompt_tokens(),
          .cached_tokens = output->cached_tokens()};
}

}  // namespace baton::wire::internal
