// Inner loops of the CPU backend, one table per instruction set, chosen at run time. Every function
// computes each output element in an order that depends on the element's own inputs only (K, the
// position in the sequence), never on which other rows are computed with it: batches and chunks of
// a prompt change no bit. Different instruction sets may differ in the last bits.
//
// Conventions: "padded" means up to a multiple of 32 values with zeros in the padding. bf16 values
// are uint16_t. No function allocates. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/ids.h"

namespace baton::backend::cpu {

inline constexpr uint32_t kPanelColumns = 64;  // output columns that one tile computes
inline constexpr uint32_t kTileRows = 6;       // rows of a tile: 24 accumulators of 16 lanes
inline constexpr uint32_t kLanes = 16;
inline constexpr uint32_t kPad = 32;
inline constexpr uint32_t kHeadDimMax = 512;

inline constexpr size_t Padded(size_t n) { return (n + kPad - 1) / kPad * kPad; }

// Queries of consecutive positions of one sequence against the keys and values of one KV head.
template <typename T>
struct AttentionTask {
  const float* query = nullptr;  // [token][group][dim], rotated and scaled
  size_t query_stride = 0;       // floats from one token to the next
  T* out = nullptr;              // as query
  size_t out_stride = 0;
  uint32_t tokens = 0;
  uint32_t position = 0;  // of the first token; each sees positions up to its own
  uint32_t group = 0;     // query heads that share the KV head
  uint32_t dim = 0;
  const T* keys = nullptr;  // of this head and layer in block 0: [token][dim]
  const T* values = nullptr;
  size_t block_stride = 0;  // values of T from one block to the next
  const BlockId* blocks = nullptr;
  uint32_t block_tokens = 0;
  float* scratch = nullptr;  // AttentionScratch() floats, aligned to 64 bytes
};

inline constexpr size_t AttentionScratch(uint32_t tokens, uint32_t group, uint32_t dim) {
  // Keys transposed and values of 16 positions; per query its sum, maximum and running output.
  return (size_t{tokens} * group + 2 * kLanes) * Padded(dim) + size_t{tokens} * group * 3 * kLanes;
}

struct Kernels {
  const char* name;

  // c[r][j] = sum over k of a[r * stride + k] * panel[k][j]; c is [rows][64], rows <= kTileRows.
  // Meanwhile it asks memory for k cache lines from `ahead` on, which may be anywhere.
  void (*tile_f32)(const float* a, size_t stride, const float* panel, size_t k, uint32_t rows,
                   float* c, const std::byte* ahead);
  // As above over pairs of k: panel is [pairs][64][2].
  void (*tile_bf16)(const uint16_t* a, size_t stride, const uint16_t* panel, size_t pairs,
                    uint32_t rows, float* c, const std::byte* ahead);

  // out[i] = x[i] / sqrt(mean(x^2) + eps) * gain[i]; all padded, the mean is over `n`.
  void (*rms_norm_f32)(const float* x, const float* gain, size_t n, float eps, float* out);
  void (*rms_norm_bf16)(const float* x, const float* gain, size_t n, float eps, uint16_t* out);

  // c is [rows][64]: 32 gates, 32 ups. out[r * stride + j] = silu(gate j) * up j.
  void (*swiglu_f32)(const float* c, uint32_t rows, float* out, size_t stride);
  void (*swiglu_bf16)(const float* c, uint32_t rows, uint16_t* out, size_t stride);

  void (*attend_f32)(const AttentionTask<float>& task);
  void (*attend_bf16)(const AttentionTask<uint16_t>& task);
};

// The tables that this processor can run, best first; never empty.
std::span<const Kernels* const> SupportedKernels();

// One per file; not every processor can run them.
extern const Kernels kGenericKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512Bf16Kernels;

}  // namespace baton::backend::cpu
