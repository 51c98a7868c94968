// Who gets the next request: pure functions over a view of the instances. Nothing here sees a
// clock, a thread or the bus.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/ledger/types.h"
#include "src/wire/messages.h"

namespace baton::controller {

enum class Policy : uint8_t { kLeastLoaded = 0, kRoundRobin = 1 };

struct RouteOptions {
  Policy policy = Policy::kLeastLoaded;
  // Prompts of up to so many tokens run unsplit where a mixed instance serves too; 0: never.
  uint32_t short_prompt_tokens = 0;
};

// What the controller knows of one instance now.
struct InstanceView {
  ledger::Target target;
  wire::Role role = wire::Role::kMixed;
  std::string model;
  const wire::Layout* layout = nullptr;
  bool usable = true;      // neither suspect nor draining
  bool exclusive = false;  // runs one request alone, or is kept for one
  std::string kept_for;    // key of the identity that it is kept for
  uint32_t running = 0;    // assignments that it holds
  uint32_t running_max = 0;
  uint64_t bytes = 0;
  uint64_t bytes_max = 0;
};

struct Ask {
  wire::RequestKind kind = wire::RequestKind::kFull;
  std::string key;  // of the identity
  std::string model;
  uint64_t prompt_tokens = 0;  // 0: text, not counted yet
  uint64_t bytes = 0;          // of the assignment, estimated
  bool alone = false;
  std::array<std::string, 2> avoid;            // instances of the attempt that failed
  const wire::Layout* owner_layout = nullptr;  // of the hand-off to be fetched
};

enum class Path : uint8_t { kWait, kContext, kGeneration, kFull };

// Split where both roles serve, unsplit on mixed instances otherwise. A context instance that
// waits for a generation instance to appear would hold blocks for nothing, so without both the
// request waits.
Path ChoosePath(const std::vector<InstanceView>& views, const Ask& ask,
                const RouteOptions& options);

using PairingCheck =
    std::function<Status(const wire::Layout& context, const wire::Layout& generation)>;

// Index of the instance, or nothing: all full, suspect, kept for another or of the wrong kind. An
// instance to avoid is taken when no other can ever serve. `turn` counts choices (round robin).
std::optional<size_t> ChooseInstance(const std::vector<InstanceView>& views, const Ask& ask,
                                     Path path, Policy policy, uint64_t turn,
                                     const PairingCheck& pairing);

// The instance to be kept free for a request that must run alone; nothing when one is kept already.
std::optional<size_t> ChooseToKeep(const std::vector<InstanceView>& views, const Ask& ask,
                                   Path path, const PairingCheck& pairing);

// Hand-offs hold blocks of the context side while they wait. More than this many requests in
// context or hand-off is more than the generation side will take soon.
uint64_t ContextAhead(const std::vector<InstanceView>& views);

}  // namespace baton::controller
