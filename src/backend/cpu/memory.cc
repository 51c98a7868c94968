#include "src/backend/cpu/memory.h"

#include <sys/mman.h>

#include "src/base/check.h"

namespace baton::backend::cpu {

Pages::Pages(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(data_ != MAP_FAILED, "out of memory for weights or activations");
  madvise(data_, bytes, MADV_HUGEPAGE);
}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace baton::backend::cpu
