#include "src/backend/cpu/linear.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/model/tensor_types.h"

namespace baton::backend::cpu {
namespace {

// Rows that one unit of work computes with one panel: the panel then comes from L2 16 times, and
// there are still enough units to balance threads.
constexpr uint32_t kUnitRows = 16 * kTileRows;

uint32_t CeilDiv(size_t a, size_t b) { return static_cast<uint32_t>((a + b - 1) / b); }

// Calls finish(panel, first row, rows, c) for every tile of the product, on all threads.
template <typename Finish>
void ForTiles(const Products& products, const Activations& in, const Packed& weights, uint32_t rows,
              Finish finish) {
  CHECK(in.dtype == weights.dtype());
  const uint32_t chunks = CeilDiv(rows, kUnitRows);
  products.pool->For(weights.panels() * chunks, [&](uint32_t unit, uint32_t) {
    const uint32_t panel = unit / chunks;
    const uint32_t begin = unit % chunks * kUnitRows;
    const uint32_t end = std::min(rows, begin + kUnitRows);
    alignas(64) float c[kTileRows * kPanelColumns];
    // Units ascend, so that this thread's next panel is about as far on as there are threads; its
    // lines come from memory while the first tiles compute.
    const uint32_t ahead = panel + products.pool->threads();
    uint32_t tiles = CeilDiv(end - begin, kTileRows);
    for (uint32_t row = begin, part = 0; row < end; --tiles, ++part) {
      const uint32_t count = CeilDiv(end - row, tiles);  // even: a tile of one row wastes most
      weights.Tile(*products.kernels, in.Row(row), in.stride, panel, count, c, ahead, part);
      finish(panel, row, count, c);
      row += count;
    }
  });
}

}  // namespace

Packed::Packed(std::span<const Source> sources, DType dtype, uint32_t columns, Pool* pool)
    : dtype_(dtype),
      columns_(columns),
      panels_(static_cast<uint32_t>(sources.size() / kPanelColumns)),
      k_(sources[0].tensor->columns()),
      k_even_((k_ + 1) / 2 * 2),
      panel_bytes_(k_even_ * kPanelColumns * DTypeBytes(dtype)),
      pages_(panels_ * panel_bytes_) {
  pool->For(panels_, [&](uint32_t panel, uint32_t) {
    PackPanel(sources.subspan(panel * kPanelColumns, kPanelColumns),
              pages_.As<std::byte>() + panel * panel_bytes_);
  });
}

void Packed::PackPanel(std::span<const Source> sources, std::byte* out) const {
  std::vector<float> row(k_);
  for (uint32_t column = 0; column < kPanelColumns; ++column) {
    const Source& source = sources[column];
    if (source.tensor == nullptr) continue;
    source.tensor->ReadRows(source.row, 1, row.data());
    if (dtype_ == DType::kF32) {
      auto* panel = reinterpret_cast<float*>(out);
      for (size_t k = 0; k < k_; ++k) panel[k * kPanelColumns + column] = row[k];
    } else {
      auto* panel = reinterpret_cast<uint16_t*>(out);
      for (size_t k = 0; k < k_; ++k) {
        panel[(k / 2 * kPanelColumns + column) * 2 + k % 2] = model::FloatToBf16(row[k]);
      }
    }
  }
}

Packed Packed::Rows(std::span<const model::Tensor* const> tensors, DType dtype, Pool* pool) {
  std::vector<Source> sources;
  for (const model::Tensor* tensor : tensors) {
    CHECK(tensor->columns() == tensors[0]->columns());
    for (uint64_t row = 0; row < tensor->rows(); ++row) sources.push_back({tensor, row});
  }
  const auto columns = static_cast<uint32_t>(sources.size());
  sources.resize(size_t{CeilDiv(columns, kPanelColumns)} * kPanelColumns);
  return Packed(sources, dtype, columns, pool);
}

Packed Packed::GateUp(const model::Tensor& gate, const model::Tensor& up, DType dtype, Pool* pool) {
  CHECK(gate.rows() == up.rows() && gate.columns() == up.columns());
  constexpr uint32_t kHalf = kPanelColumns / 2;
  std::vector<Source> sources;
  for (uint64_t first = 0; first < gate.rows(); first += kHalf) {
    for (const model::Tensor* tensor : {&gate, &up}) {
      for (uint64_t row = first; row < first + kHalf; ++row) {
        sources.push_back(row < tensor->rows() ? Source{tensor, row} : Source{});
      }
    }
  }
  return Packed(sources, dtype, static_cast<uint32_t>(sources.size()), pool);
}

void Packed::Tile(const Kernels& kernels, const std::byte* a, size_t stride, uint32_t panel,
                  uint32_t rows, float* c, uint32_t ahead, uint32_t ahead_part) const {
  const std::byte* weights = pages_.As<std::byte>() + panel * panel_bytes_;
  // Past the last part or panel: the present panel again, which costs nothing.
  const bool useful = ahead < panels_ && ahead_part < kPanelColumns / kLanes;
  const std::byte* next = useful ? pages_.As<std::byte>() + ahead * panel_bytes_ +
                                       ahead_part * (panel_bytes_ / (kPanelColumns / kLanes))
                                 : weights;
  if (dtype_ == DType::kF32) {
    kernels.tile_f32(reinterpret_cast<const float*>(a), stride,
                     reinterpret_cast<const float*>(weights), k_, rows, c, next);
  } else {
    kernels.tile_bf16(reinterpret_cast<const uint16_t*>(a), stride,
                      reinterpret_cast<const uint16_t*>(weights), k_even_ / 2, rows, c, next);
  }
}

void Products::Store(const Activations& in, const Packed& weights, uint32_t rows, float* out,
                     size_t stride) const {
  ForTiles(*this, in, weights, rows,
           [&](uint32_t panel, uint32_t row, uint32_t count, const float* c) {
             const uint32_t first = panel * kPanelColumns;
             const uint32_t width = std::min(kPanelColumns, weights.columns() - first);
             for (uint32_t r = 0; r < count; ++r) {
               std::copy_n(c + r * kPanelColumns, width, out + (row + r) * stride + first);
             }
           });
}

void Products::Accumulate(const Activations& in, const Packed& weights, uint32_t rows, float* out,
                          size_t stride) const {
  ForTiles(*this, in, weights, rows,
           [&](uint32_t panel, uint32_t row, uint32_t count, const float* c) {
             const uint32_t first = panel * kPanelColumns;
             const uint32_t width = std::min(kPanelColumns, weights.columns() - first);
             for (uint32_t r = 0; r < count; ++r) {
               float* line = out + (row + r) * stride + first;
               for (uint32_t j = 0; j < width; ++j) line[j] += c[r * kPanelColumns + j];
             }
           });
}

void Products::SwiGlu(const Activations& in, const Packed& weights, uint32_t rows,
                      const Activations& out) const {
  ForTiles(*this, in, weights, rows,
           [&](uint32_t panel, uint32_t row, uint32_t count, const float* c) {
             const size_t at = size_t{panel} * kPanelColumns / 2;
             if (out.dtype == DType::kF32) {
               auto* to = reinterpret_cast<float*>(out.Row(row)) + at;
               kernels->swiglu_f32(c, count, to, out.stride);
             } else {
               auto* to = reinterpret_cast<uint16_t*>(out.Row(row)) + at;
               kernels->swiglu_bf16(c, count, to, out.stride);
             }
           });
}

}  // namespace baton::backend::cpu
