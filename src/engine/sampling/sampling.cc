#include "src/engine/sampling/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace baton::engine {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

bool HasPenalties(const wire::SamplingParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
}

// Index of the largest value, the lowest on a tie; -1 when all are -inf or NaN.
int32_t ArgMax(std::span<const float> values) {
  int32_t best = -1;
  float best_value = kNone;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] > best_value) {  // false for NaN
      best_value = values[i];
      best = static_cast<int32_t>(i);
    }
  }
  return best;
}

void ApplyPenalties(const wire::SamplingParams& p, const TokenCounts& counts,
                    std::vector<float>* logits) {
  for (const auto& [token, count] : counts.counts) {
    if (token < 0 || static_cast<size_t>(token) >= logits->size()) continue;
    float& logit = (*logits)[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / p.repetition_penalty : logit * p.repetition_penalty;
    if (count.output > 0) {
      logit -= p.presence_penalty + p.frequency_penalty * static_cast<float>(count.output);
    }
  }
}

struct Candidate {
  int32_t token;
  double weight;  // exp((logit - max) / temperature), so the best has 1
};

// Higher weight first, then lower id: a total order, so that every platform cuts the same.
bool Better(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
}

std::vector<Candidate> Weigh(std::span<const float> logits, float max, float temperature,
                             float min_p) {
  std::vector<Candidate> all;
  all.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > kNone)) continue;
    const double weight =
        std::exp((static_cast<double>(logits[i]) - static_cast<double>(max)) / temperature);
    // weight / 1 is p / p_max, which is what min-p compares.
    if (weight > 0 && weight >= min_p) all.push_back({static_cast<int32_t>(i), weight});
  }
  return all;
}

double Total(const std::vector<Candidate>& candidates) {
  return std::accumulate(candidates.begin(), candidates.end(), 0.0,
                         [](double sum, const Candidate& c) { return sum + c.weight; });
}

void KeepTopK(int32_t k, std::vector<Candidate>* all) {
  if (k <= 0 || static_cast<size_t>(k) >= all->size()) return;
  std::nth_element(all->begin(), all->begin() + (k - 1), all->end(), Better);
  all->resize(static_cast<size_t>(k));
}

// The smallest set of best candidates whose share reaches top_p. A heap yields them best first, so
// the tail of a large vocabulary is never sorted.
void KeepTopP(float top_p, std::vector<Candidate>* all) {
  if (top_p >= 1) return;
  const double goal = std::max(top_p, 0.0F) * Total(*all);
  const auto worse = [](const Candidate& a, const Candidate& b) { return Better(b, a); };
  std::make_heap(all->begin(), all->end(), worse);
  std::vector<Candidate> kept;
  double sum = 0;
  auto end = all->end();
  while (end != all->begin()) {
    std::pop_heap(all->begin(), end, worse);
    --end;
    kept.push_back(*end);
    sum += end->weight;
    if (sum >= goal) break;
  }
  *all = std::move(kept);
}

}  // namespace

double UniformAt(uint64_t seed, uint32_t position) {
  const uint64_t bits = Mix(Mix(seed) ^ (static_cast<uint64_t>(position) + 1));
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

int32_t SampleToken(std::span<const float> logits, const wire::SamplingParams& params,
                    const TokenCounts& counts, double uniform, std::vector<float>* scratch) {
  if (HasPenalties(params) && !counts.counts.empty()) {
    scratch->assign(logits.begin(), logits.end());
    ApplyPenalties(params, counts, scratch);
    logits = *scratch;
  }
  const int32_t best = ArgMax(logits);
  if (best < 0 || !(params.temperature > 0)) return best;
  const float max = logits[static_cast<size_t>(best)];
  if (std::isinf(max)) return best;  // +inf: nothing else has a share

  std::vector<Candidate> all = Weigh(logits, max, params.temperature, params.min_p);
  // Only a min-p above 1, which has no meaning, or a subnormal temperature empties the set.
  if (all.empty()) return best;
  KeepTopK(params.top_k, &all);
  KeepTopP(params.top_p, &all);
  // In order of ids, so that the draw does not depend on how the cuts left them.
  std::sort(all.begin(), all.end(),
            [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
  double left = uniform * Total(all);
  for (const Candidate& c : all) {
    left -= c.weight;
    if (left < 0) return c.token;
  }
  return all.back().token;  // rounding
}

wire::PositionLogprobs LogprobsOf(std::span<const float> logits, int32_t chosen, uint32_t top) {
  wire::PositionLogprobs result;
  const int32_t best = ArgMax(logits);
  if (best < 0 || chosen < 0) return result;
  const double max = logits[static_cast<size_t>(best)];
  double sum = 0;
  for (const float logit : logits) {
    if (logit > kNone) sum += std::exp(static_cast<double>(logit) - max);
  }
  const double log_total = max + std::log(sum);
  const auto logprob = [&](int32_t token) {
    return static_cast<float>(static_cast<double>(logits[static_cast<size_t>(token)]) - log_total);
  };
  result.chosen = {chosen, logprob(chosen)};
  std::vector<int32_t> order;
  for (size_t i = 0; i < logits.size() && top > 0; ++i) {
    if (logits[i] > kNone) order.push_back(static_cast<int32_t>(i));
  }
  const size_t kept = std::min<size_t>(top, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&](int32_t a, int32_t b) {
                      const float x = logits[static_cast<size_t>(a)];
                      const float y = logits[static_cast<size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  for (size_t i = 0; i < kept; ++i) result.top.push_back({order[i], logprob(order[i])});
  return result;
}

Sampler::Sampler(const backend::SequenceSpec& spec)
    : params_(spec.sampling), top_logprobs_(spec.logprobs), penalties_(HasPenalties(params_)) {
  if (!penalties_) return;
  for (size_t i = 0; i < spec.history.size(); ++i) {
    TokenCounts::Count& count = counts_.counts[spec.history[i]];
    ++(i < spec.prompt_tokens ? count.prompt : count.output);
  }
}

int32_t Sampler::Sample(std::span<const float> logits, uint32_t position,
                        std::optional<wire::PositionLogprobs>* logprobs) {
  const int32_t token = SampleToken(logits, params_, counts_,
                                    UniformAt(params_.seed.value_or(0), position), &scratch_);
  if (token >= 0 && penalties_) ++counts_.counts[token].output;
  if (logprobs != nullptr && top_logprobs_.has_value()) {
    *logprobs = LogprobsOf(logits, token, *top_logprobs_);
  }
  return token;
}

}  // namespace baton::engine
