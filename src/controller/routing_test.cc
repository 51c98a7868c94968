#include "src/controller/routing.h"

#include <gtest/gtest.h>

namespace baton::controller {
namespace {

using wire::Role;

const wire::Layout kLayout;

InstanceView View(const std::string& name, Role role, uint32_t running = 0) {
  InstanceView view;
  view.target.instance = name;
  view.role = role;
  view.model = "m";
  view.layout = &kLayout;
  view.running = running;
  view.running_max = 4;
  view.bytes_max = 1000;
  return view;
}

std::optional<size_t> Choose(const std::vector<InstanceView>& views, const Ask& ask, Path path,
                             Policy policy = Policy::kLeastLoaded, uint64_t turn = 0) {
  return ChooseInstance(views, ask, path, policy, turn, nullptr);
}

TEST(Routing, MixedClusterRunsUnsplit) {
  EXPECT_EQ(ChoosePath({View("m", Role::kMixed)}, {}, {}), Path::kFull);
}

TEST(Routing, BothRolesMeanSplit) {
  const std::vector<InstanceView> views = {View("c", Role::kContext), View("g", Role::kGeneration),
                                           View("m", Role::kMixed)};
  EXPECT_EQ(ChoosePath(views, {}, {}), Path::kContext);
}

TEST(Routing, OneRoleAloneWaitsForTheOther) {
  EXPECT_EQ(ChoosePath({View("c", Role::kContext)}, {}, {}), Path::kWait);
  EXPECT_EQ(ChoosePath({View("g", Role::kGeneration)}, {}, {}), Path::kWait);
  EXPECT_EQ(ChoosePath({}, {}, {}), Path::kWait);
  InstanceView suspect = View("g", Role::kGeneration);
  suspect.usable = false;
  EXPECT_EQ(ChoosePath({View("c", Role::kContext), suspect, View("m", Role::kMixed)}, {}, {}),
            Path::kFull);
}

TEST(Routing, ShortPromptsStayUnsplitWhereThatIsPossible) {
  const std::vector<InstanceView> split = {View("c", Role::kContext), View("g", Role::kGeneration)};
  std::vector<InstanceView> all = split;
  all.push_back(View("m", Role::kMixed));
  RouteOptions options;
  options.short_prompt_tokens = 32;
  Ask ask;
  ask.prompt_tokens = 32;
  EXPECT_EQ(ChoosePath(all, ask, options), Path::kFull);
  EXPECT_EQ(ChoosePath(split, ask, options), Path::kContext);
  ask.prompt_tokens = 33;
  EXPECT_EQ(ChoosePath(all, ask, options), Path::kContext);
}

TEST(Routing, LeastLoadedIsByShareOfItsOwnBound) {
  std::vector<InstanceView> views = {View("a", Role::kMixed, 2), View("b", Role::kMixed, 3)};
  views[1].running_max = 16;
  EXPECT_EQ(Choose(views, {}, Path::kFull), 1u);
}

TEST(Routing, RoundRobinTakesTurns) {
  const std::vector<InstanceView> views = {View("a", Role::kMixed), View("b", Role::kMixed)};
  EXPECT_EQ(Choose(views, {}, Path::kFull, Policy::kRoundRobin, 0), 0u);
  EXPECT_EQ(Choose(views, {}, Path::kFull, Policy::kRoundRobin, 1), 1u);
  EXPECT_EQ(Choose(views, {}, Path::kFull, Policy::kRoundRobin, 2), 0u);
}

TEST(Routing, CreditsInCountAndBytesAreNeverExceeded) {
  std::vector<InstanceView> views = {View("a", Role::kMixed, 4)};
  EXPECT_FALSE(Choose(views, {}, Path::kFull));
  views[0].running = 3;
  views[0].bytes = 600;
  Ask ask;
  ask.bytes = 401;
  EXPECT_FALSE(Choose(views, ask, Path::kFull));
  ask.bytes = 400;
  EXPECT_TRUE(Choose(views, ask, Path::kFull));
  // Larger than the whole bound: by itself.
  ask.bytes = 5000;
  EXPECT_FALSE(Choose(views, ask, Path::kFull));
  views[0].bytes = 0;
  EXPECT_TRUE(Choose(views, ask, Path::kFull));
}

TEST(Routing, RetryAvoidsWhereItFailedUnlessThereIsNoOther) {
  std::vector<InstanceView> views = {View("a", Role::kMixed), View("b", Role::kMixed, 3)};
  Ask ask;
  ask.avoid = {"a", "a"};
  EXPECT_EQ(Choose(views, ask, Path::kFull), 1u);
  views[1].running = 4;
  EXPECT_FALSE(Choose(views, ask, Path::kFull)) << "waits for the other one";
  views.pop_back();
  EXPECT_EQ(Choose(views, ask, Path::kFull), 0u);
}

TEST(Routing, AloneNeedsAnEmptyInstanceAndKeepsOneFree) {
  std::vector<InstanceView> views = {View("a", Role::kMixed, 1), View("b", Role::kMixed, 2)};
  Ask ask;
  ask.alone = true;
  ask.key = "t/x";
  EXPECT_FALSE(Choose(views, ask, Path::kFull));
  EXPECT_EQ(ChooseToKeep(views, ask, Path::kFull, nullptr), 0u);
  views[0].kept_for = "t/x";
  EXPECT_FALSE(ChooseToKeep(views, ask, Path::kFull, nullptr)) << "one is enough";
  Ask other;
  other.key = "t/y";
  EXPECT_EQ(Choose(views, other, Path::kFull), 1u) << "the kept one takes no more";
  views[0].running = 0;
  EXPECT_EQ(Choose(views, ask, Path::kFull), 0u);
  views[0].exclusive = true;
  EXPECT_FALSE(Choose(views, ask, Path::kFull));
}

TEST(Routing, GenerationGoesOnlyWhereTheLayoutsMeet) {
  wire::Layout odd;
  odd.tp = 3;
  std::vector<InstanceView> views = {View("a", Role::kGeneration), View("b", Role::kGeneration, 3)};
  views[0].layout = &odd;
  Ask ask;
  ask.owner_layout = &kLayout;
  const PairingCheck same = [](const wire::Layout& x, const wire::Layout& y) {
    return x == y ? OkStatus() : FailedPreconditionError("layouts");
  };
  EXPECT_EQ(ChooseInstance(views, ask, Path::kGeneration, Policy::kLeastLoaded, 0, same), 1u);
}

TEST(Routing, ModelIsServedByItsOwnInstancesOnly) {
  std::vector<InstanceView> views = {View("a", Role::kMixed), View("b", Role::kMixed, 3)};
  views[1].model = "n";
  Ask ask;
  ask.model = "n";
  EXPECT_EQ(Choose(views, ask, Path::kFull), 1u);
}

}  // namespace
}  // namespace baton::controller
