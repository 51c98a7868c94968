// The model's arithmetic against transformers in f32 (golden/model.json, made by make_golden.py).
// Ten prompts in CI; //tests/parity:full sets PARITY_PROMPTS=50 and gives the reference all tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>

#include "tests/parity/agreement.h"
#include "tests/parity/golden.h"

namespace baton::parity {
namespace {

using backend::DType;

constexpr double kSameTextShareMin = 0.98;
constexpr float kLogitDifferenceMax = 1e-3F;
constexpr double kBf16SameTopShareMin = 0.97;
constexpr size_t kSequenceTokens = 96;

size_t PromptCount() {
  const char* count = std::getenv("PARITY_PROMPTS");
  return count == nullptr ? 10 : static_cast<size_t>(std::atoi(count));
}

bool IsFull() { return PromptCount() > 10; }

Agreement Forced(const std::string& name, const model::Model& model, DType dtype, size_t prompts,
                 size_t tokens) {
  backend::TestBackend backend(name, &model, ParityOptions(dtype, prompts));
  const Agreement agreement = CompareForced(*backend, GoldenPrompts(prompts), tokens);
  std::cout << name << " " << backend::DTypeName(dtype) << ": " << agreement.ToString() << "\n";
  return agreement;
}

bool PassesF32(const Agreement& agreement) {
  return agreement.same_text_share() >= kSameTextShareMin &&
         agreement.logit_difference <= kLogitDifferenceMax;
}

// The oracle runs a few tokens per second, so in CI it gets three prompts and eight drawn tokens.
TEST(Parity, ReferenceAgreesInTextAndLogits) {
  const size_t prompts = IsFull() ? PromptCount() : 3;
  const size_t tokens = IsFull() ? kSequenceTokens : 72;
  const Agreement agreement = Forced("reference", RealModel(), DType::kF32, prompts, tokens);
  EXPECT_TRUE(PassesF32(agreement)) << agreement.ToString();
}

TEST(Parity, CpuF32AgreesInTextAndLogits) {
  const Agreement agreement =
      Forced("cpu", RealModel(), DType::kF32, PromptCount(), kSequenceTokens);
  EXPECT_TRUE(PassesF32(agreement)) << agreement.ToString();
}

TEST(Parity, CpuF32DecodesTheGoldenText) {
  backend::TestBackend backend("cpu", &RealModel(), ParityOptions(DType::kF32, PromptCount()));
  const Agreement agreement = CompareDecoded(backend, GoldenPrompts(PromptCount()));
  std::cout << "cpu f32 decoding: same text " << agreement.same_text << "/" << agreement.prompts
            << "\n";
  EXPECT_GE(agreement.same_text_share(), kSameTextShareMin);
}

TEST(Parity, CpuBf16AgreesOnNearlyEveryTopToken) {
  const Agreement agreement =
      Forced("cpu", RealModel(), DType::kBf16, PromptCount(), kSequenceTokens);
  EXPECT_GE(agreement.same_top_share(), kBf16SameTopShareMin) << agreement.ToString();
}

// The checks above have teeth: a model with one small thing wrong fails both of them.
class MutatedModel : public testing::Test {
 protected:
  static void ExpectCaught(const std::function<void(model::Model*)>& mutate) {
    model::Model mutated = RealModel();
    mutate(&mutated);
    const Agreement agreement = Forced("cpu", mutated, DType::kF32, 3, kSequenceTokens);
    EXPECT_LT(agreement.same_text_share(), kSameTextShareMin) << agreement.ToString();
    EXPECT_GT(agreement.logit_difference, kLogitDifferenceMax) << agreement.ToString();
  }
};

TEST_F(MutatedModel, AnotherRopeBaseIsCaught) {
  ExpectCaught([](model::Model* model) { model->config().rope_base = 10000.0F; });
}

TEST_F(MutatedModel, ASkippedLayerIsCaught) {
  ExpectCaught([](model::Model* model) {
    // A layer that adds nothing to the residual stream is a layer that is skipped.
    for (const char* part : {"attn_output", "ffn_down"}) {
      const std::string name = model::LayerTensorName(15, part);
      const model::Tensor& tensor = model->Get(name);
      const std::vector<float> zeros(tensor.rows() * tensor.columns());
      model->Set(name, model::Tensor::Owned(tensor.rows(), tensor.columns(), zeros));
    }
  });
}

TEST_F(MutatedModel, TwoSwappedHeadsAreCaught) {
  ExpectCaught([](model::Model* model) {
    const std::string name = model::LayerTensorName(4, "attn_q");
    const model::Tensor& tensor = model->Get(name);
    std::vector<float> values = tensor.ReadAll();
    const size_t head = model->config().head_dim * tensor.columns();
    // Heads 0 and 3 have different KV heads (three query heads share one).
    std::swap_ranges(values.begin(), values.begin() + head, values.begin() + 3 * head);
    model->Set(name, model::Tensor::Owned(tensor.rows(), tensor.columns(), std::move(values)));
  });
}

}  // namespace
}  // namespace baton::parity
