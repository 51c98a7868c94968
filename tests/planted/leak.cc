// A leak in our own code. CI runs this under --config=asan and wants it to fail: proof that the
// gate sees one.
#include <cstdlib>

int main() {
  // volatile: or the compiler removes the pair.
  void* volatile lost = std::malloc(64);
  lost = nullptr;
  return lost == nullptr ? 0 : 1;
}
