// A model: its shape, its vocabulary and its tensors, named as GGUF names them
// ("blk.3.attn_q.weight"). Tensors are read as f32 rows; backends convert them once at load.
//
// A value: copies share the mapped file, so a copy is cheap and may be changed (config, tensors)
// without touching the original. Reading is const and thread-safe; changing is not. Backends keep a
// pointer to the model (embedding rows are read from it), so it must outlive them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/model/config.h"
#include "src/model/tensor_types.h"
#include "src/text/tokenizer.h"

namespace baton::model {

// A matrix of `rows` x `columns`, row-major; a vector is one row.
class Tensor {
 public:
  // `data` stays alive through `keep`.
  static Tensor Stored(uint64_t rows, uint64_t columns, TensorType type, const std::byte* data,
                       std::shared_ptr<const void> keep);
  // `values` holds rows * columns floats.
  static Tensor Owned(uint64_t rows, uint64_t columns, std::vector<float> values);
  // Uniform in [center - spread, center + spread], made anew at every read from (seed, row,
  // column): any size costs no memory.
  static Tensor Random(uint64_t rows, uint64_t columns, uint64_t seed, float center, float spread);

  uint64_t rows() const { return rows_; }
  uint64_t columns() const { return columns_; }
  // Writes rows [first, first + count) to `out`, count * columns() floats.
  void ReadRows(uint64_t first, uint64_t count, float* out) const;
  std::vector<float> ReadAll() const;

 private:
  enum class Kind : uint8_t { kStored, kOwned, kRandom };
  Tensor(Kind kind, uint64_t rows, uint64_t columns)
      : kind_(kind), rows_(rows), columns_(columns) {}

  Kind kind_;
  uint64_t rows_;
  uint64_t columns_;
  TensorType type_ = TensorType::kF32;
  const std::byte* data_ = nullptr;
  std::shared_ptr<const void> keep_;  // the file, or the floats
  uint64_t seed_ = 0;
  float center_ = 0;
  float spread_ = 0;
};

class Model {
 public:
  Config& config() { return config_; }
  const Config& config() const { return config_; }
  text::TokenizerSpec& tokenizer() { return tokenizer_; }
  const text::TokenizerSpec& tokenizer() const { return tokenizer_; }

  // Null when there is none of that name.
  const Tensor* Find(std::string_view name) const;
  // CHECKs that it is there; for names that CheckLlama has seen.
  const Tensor& Get(std::string_view name) const;
  // Adds or replaces.
  void Set(std::string name, Tensor tensor);

 private:
  Config config_;
  text::TokenizerSpec tokenizer_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

// "blk.<layer>.<part>.weight"
std::string LayerTensorName(uint32_t layer, std::string_view part);
// The output head: "output.weight", or the embedding when the model ties them.
const Tensor& OutputHead(const Model& model);

// Are all tensors of a Llama there, in the shapes that config says, and is config sane?
// kInvalidArgument names the first that is not.
Status CheckLlama(const Model& model);

// Random weights of the given shape, for measuring and for small tests; the same seed gives the
// same model everywhere. Its vocabulary has no texts. kInvalidArgument when the shape is not sane.
Result<std::unique_ptr<Model>> MakeDummy(const Config& config, uint64_t seed);

}  // namespace baton::model
