// Stands between clients and a broker on 127.0.0.1, to lose answers on purpose. Passes bytes both
// ways on a thread of its own; the public functions may be called from any one thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/base/result.h"

namespace baton::bus {

class TcpProxy {
 public:
  // Listens on a free port; connections are closed at once until there is a target.
  static Result<std::unique_ptr<TcpProxy>> Start();
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  int port() const { return port_; }
  void SetTarget(int port) { target_ = port; }
  // The next bytes from a client that hold `marker` are passed on; what the target answers on that
  // connection is dropped, and the connection is cut.
  void LoseAnswerTo(const std::string& marker);
  // How many answers were lost so far.
  int lost() const { return lost_; }

 private:
  struct Pair {
    int client = -1;
    int target = -1;
    bool losing = false;
  };

  TcpProxy() = default;
  void Run();
  void Accept();
  // False when the pair has to be closed.
  bool PassToTarget(Pair& pair);
  bool PassToClient(Pair& pair);

  int listener_ = -1;
  int port_ = 0;
  int wake_[2] = {-1, -1};
  std::atomic<int> target_{0};
  std::atomic<int> lost_{0};
  std::mutex mutex_;
  std::string marker_;
  std::vector<Pair> pairs_;  // of the thread
  std::thread thread_;
};

}  // namespace baton::bus
