// Shape of a Llama-family model, as its file says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace baton::model {

struct Config {
  std::string name;
  std::string architecture = "llama";
  uint32_t layers = 0;
  uint32_t hidden = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t mlp = 0;  // columns of gate and up
  uint32_t vocab = 0;
  uint32_t context = 0;  // longest sequence, in tokens
  float rms_eps = 1e-5F;
  float rope_base = 10000.0F;
  uint32_t rope_dims = 0;    // leading dimensions of a head that rotate
  bool tied_output = false;  // output head is the embedding
  int32_t bos_id = -1;
  bool add_bos = false;  // plain prompts begin with bos_id
  int32_t end_id = -1;
  std::vector<int32_t> end_ids;  // every token that ends an answer, end_id among them
  std::string weights_hash;      // XXH3-128 of the file, hex

  // Every rope setting in one text, for Layout::rope.
  std::string RopeText() const;
};

}  // namespace baton::model
