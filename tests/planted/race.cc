// A data race in our own code. CI runs this under --config=tsan and wants it to fail.
#include <thread>

int main() {
  int shared = 0;
  std::thread other([&] { ++shared; });
  ++shared;
  other.join();
  return shared > 2 ? 1 : 0;
}
