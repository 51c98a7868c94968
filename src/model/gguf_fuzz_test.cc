// Whatever the bytes, the reader answers with a Status, and every tensor it accepts can be read.
#include <cstdint>
#include <vector>

#include "src/model/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using baton::model::Dequantize;
  using baton::model::InfoOf;
  const auto file =
      baton::model::Gguf::Parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (!file.ok()) return 0;
  for (const auto& tensor : file->tensors()) {
    const auto& info = InfoOf(tensor.type);
    std::vector<float> values(tensor.data.size() / info.block_bytes * info.block_values);
    Dequantize(tensor.type, tensor.data.data(), values.size(), values.data());
  }
  return 0;
}
