// GGUF files, versions 2 and 3, little endian: metadata and a table of tensors. The input is
// hostile: every count, length and offset is checked against what the file holds, nothing recurses,
// and memory grows by at most a small factor of the file's size.
//
// Immutable after parsing, so any thread may read it. Tensor data point into the mapped bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "src/base/result.h"
#include "src/model/tensor_types.h"

namespace baton::model {

// Integers of every width and bool, floats of both widths, strings, and arrays of one of these.
// Arrays of arrays are refused: no model that is supported has them.
using GgufArray =
    std::variant<std::vector<int64_t>, std::vector<double>, std::vector<std::string_view>>;
using GgufValue = std::variant<bool, int64_t, uint64_t, double, std::string_view, GgufArray>;

struct GgufTensor {
  std::string_view name;
  std::vector<uint64_t> shape;  // 1 to 4 sizes, the fastest varying first
  TensorType type = TensorType::kF32;
  std::span<const std::byte> data;

  uint64_t columns() const { return shape[0]; }
  uint64_t rows() const {
    uint64_t rows = 1;
    for (size_t i = 1; i < shape.size(); ++i) rows *= shape[i];
    return rows;
  }
};

class Gguf {
 public:
  // `bytes` must outlive the result; `name` is for error messages, which say where and why:
  // "model.gguf at byte 123: tensor 'x' ends outside the file". Errors are kInvalidArgument.
  static Result<Gguf> Parse(std::span<const std::byte> bytes, std::string name);

  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const std::unordered_map<std::string_view, GgufValue>& metadata() const { return metadata_; }
  const GgufTensor* FindTensor(std::string_view name) const;
  const GgufValue* Find(std::string_view key) const;

  // The value under `key` in the asked type. kInvalidArgument names the file and key when it is
  // absent or of another type; integers of every width and sign convert when they fit.
  Result<uint64_t> Uint(std::string_view key, uint64_t max) const;
  Result<double> Float(std::string_view key) const;
  Result<std::string> String(std::string_view key) const;

  const std::string& name() const { return name_; }

 private:
  friend class GgufParser;
  std::string name_;
  std::unordered_map<std::string_view, GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
};

}  // namespace baton::model
