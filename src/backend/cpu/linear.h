// Weights packed for the tiles of kernels.h, and products with them over all threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/backend/backend.h"
#include "src/backend/cpu/kernels.h"
#include "src/backend/cpu/memory.h"
#include "src/backend/cpu/pool.h"
#include "src/model/model.h"

namespace baton::backend::cpu {

// Rows of `tensor` that become output columns, one after the other.
struct Source {
  const model::Tensor* tensor = nullptr;
  uint64_t row = 0;
};

// Panels of 64 output columns: f32 as [k][64], bf16 as [k / 2][64][2]; zeros beyond the last column
// and the last k. Immutable once made.
class Packed {
 public:
  // All rows of the tensors, one tensor after the other.
  static Packed Rows(std::span<const model::Tensor* const> tensors, DType dtype, Pool* pool);
  // Panels of 32 gates and the 32 ups that belong to them.
  static Packed GateUp(const model::Tensor& gate, const model::Tensor& up, DType dtype, Pool* pool);

  uint32_t columns() const { return columns_; }  // in use
  uint32_t panels() const { return panels_; }
  DType dtype() const { return dtype_; }
  size_t bytes() const { return pages_.bytes(); }
  // c[r][0..64) = rows of `a` (`stride` values apart, k padded with zeros) times panel `panel`.
  // Brings part `ahead_part` (a cache line per step of k, 4 parts in all) of panel `ahead` near.
  void Tile(const Kernels& kernels, const std::byte* a, size_t stride, uint32_t panel,
            uint32_t rows, float* c, uint32_t ahead, uint32_t ahead_part) const;

 private:
  // `sources` has 64 entries per panel; a null tensor is a column of zeros.
  Packed(std::span<const Source> sources, DType dtype, uint32_t columns, Pool* pool);
  void PackPanel(std::span<const Source> sources, std::byte* out) const;

  DType dtype_;
  uint32_t columns_;
  uint32_t panels_;
  size_t k_;       // of the tensors
  size_t k_even_;  // rounded up to a multiple of 2
  size_t panel_bytes_;
  Pages pages_;
};

// Rows of activations in the weights' dtype: padded rows, padding zero.
struct Activations {
  DType dtype = DType::kF32;
  size_t stride = 0;  // values from row to row
  Pages pages;

  Activations() = default;
  Activations(DType type, size_t rows, size_t width)
      : dtype(type), stride(Padded(width)), pages(rows * stride * DTypeBytes(type)) {}
  std::byte* Row(size_t row) const {
    return pages.As<std::byte>() + row * stride * DTypeBytes(dtype);
  }
};

struct Products {
  const Kernels* kernels;
  Pool* pool;

  // out[r][n] = in row r times column n; `out` rows are `stride` floats apart.
  void Store(const Activations& in, const Packed& weights, uint32_t rows, float* out,
             size_t stride) const;
  // out[r][n] += the same.
  void Accumulate(const Activations& in, const Packed& weights, uint32_t rows, float* out,
                  size_t stride) const;
  // `weights` are GateUp: out row r = silu(gate) * up.
  void SwiGlu(const Activations& in, const Packed& weights, uint32_t rows,
              const Activations& out) const;
};

}  // namespace baton::backend::cpu
