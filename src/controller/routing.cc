#include "src/controller/routing.h"

#include <algorithm>

namespace baton::controller {

namespace {

using wire::Role;

bool PlaysPart(Role role, Path path) {
  switch (path) {
    case Path::kContext:
      return role == Role::kContext || role == Role::kMixed;
    case Path::kGeneration:
      return role == Role::kGeneration || role == Role::kMixed;
    case Path::kFull:
      return role == Role::kMixed;
    case Path::kWait:
      break;
  }
  return false;
}

bool Serves(const InstanceView& view, const Ask& ask) {
  return ask.model.empty() || ask.model == view.model;
}

bool Avoided(const InstanceView& view, const Ask& ask) {
  return view.target.instance == ask.avoid[0] || view.target.instance == ask.avoid[1];
}

// Could take it if it were empty.
bool Suits(const InstanceView& view, const Ask& ask, Path path, const PairingCheck& pairing) {
  if (!view.usable || !PlaysPart(view.role, path) || !Serves(view, ask)) return false;
  if (path != Path::kGeneration || ask.owner_layout == nullptr) return true;
  return pairing == nullptr || pairing(*ask.owner_layout, *view.layout).ok();
}

bool HasRoom(const InstanceView& view, const Ask& ask) {
  if (!view.kept_for.empty() && view.kept_for != ask.key) return false;
  if (view.exclusive) return false;
  if (ask.alone) return view.running == 0;
  if (view.running >= view.running_max) return false;
  // What is larger than the whole bound still runs, by itself.
  return view.bytes == 0 || view.bytes + ask.bytes <= view.bytes_max;
}

bool LessLoaded(const InstanceView& a, const InstanceView& b) {
  // By used share, without division: a.running / a.max < b.running / b.max.
  const uint64_t left = uint64_t{a.running} * std::max(1u, b.running_max);
  const uint64_t right = uint64_t{b.running} * std::max(1u, a.running_max);
  if (left != right) return left < right;
  if (a.bytes != b.bytes) return a.bytes < b.bytes;
  return a.target.instance < b.target.instance;
}

bool AnyUsable(const std::vector<InstanceView>& views, const Ask& ask, Role role) {
  return std::any_of(views.begin(), views.end(), [&](const InstanceView& view) {
    return view.usable && view.role == role && Serves(view, ask);
  });
}

}  // namespace

Path ChoosePath(const std::vector<InstanceView>& views, const Ask& ask,
                const RouteOptions& options) {
  switch (ask.kind) {
    case wire::RequestKind::kContextOnly:
      return Path::kContext;
    case wire::RequestKind::kGenerationOnly:
      return Path::kGeneration;
    case wire::RequestKind::kFull:
      break;
  }
  const bool split =
      AnyUsable(views, ask, Role::kContext) && AnyUsable(views, ask, Role::kGeneration);
  const bool mixed = AnyUsable(views, ask, Role::kMixed);
  const bool is_short = ask.prompt_tokens > 0 && ask.prompt_tokens <= options.short_prompt_tokens;
  if (split && !(mixed && is_short)) return Path::kContext;
  return mixed ? Path::kFull : Path::kWait;
}

std::optional<size_t> ChooseInstance(const std::vector<InstanceView>& views, const Ask& ask,
                                     Path path, Policy policy, uint64_t turn,
                                     const PairingCheck& pairing) {
  std::vector<size_t> suited;
  for (size_t i = 0; i < views.size(); ++i) {
    if (Suits(views[i], ask, path, pairing)) suited.push_back(i);
  }
  const auto avoided = [&](size_t i) { return Avoided(views[i], ask); };
  if (!std::all_of(suited.begin(), suited.end(), avoided)) std::erase_if(suited, avoided);
  std::erase_if(suited, [&](size_t i) { return !HasRoom(views[i], ask); });
  if (suited.empty()) return std::nullopt;
  if (policy == Policy::kRoundRobin) return suited[turn % suited.size()];
  return *std::min_element(suited.begin(), suited.end(),
                           [&](size_t a, size_t b) { return LessLoaded(views[a], views[b]); });
}

std::optional<size_t> ChooseToKeep(const std::vector<InstanceView>& views, const Ask& ask,
                                   Path path, const PairingCheck& pairing) {
  std::optional<size_t> best;
  for (size_t i = 0; i < views.size(); ++i) {
    const InstanceView& view = views[i];
    if (view.kept_for == ask.key) return std::nullopt;
    if (!view.kept_for.empty() || !Suits(view, ask, path, pairing)) continue;
    if (!best) {
      best = i;
      continue;
    }
    const bool was_avoided = Avoided(views[*best], ask);
    if (was_avoided != Avoided(view, ask) ? was_avoided : LessLoaded(view, views[*best])) best = i;
  }
  return best;
}

uint64_t ContextAhead(const std::vector<InstanceView>& views) {
  uint64_t sum = 0;
  for (const InstanceView& view : views) {
    if (view.usable && view.role != Role::kContext) sum += view.running_max;
  }
  return std::max<uint64_t>(1, sum);
}

}  // namespace baton::controller
