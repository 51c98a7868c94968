// MPI from first to last call in this process. Every rank of an instance makes one at the start of
// main() and keeps it until the end; links (src/ranks/mpi) live inside that time.
#pragma once

#include <cstdint>
#include <memory>

#include "src/base/result.h"

namespace baton::ranks {

// Created and destroyed by the same thread, once in the life of a process: MPI starts only once.
class MpiSession {
 public:
  // Tells the launcher this rank's pid, asks the system to end this process with mpirun, and starts
  // MPI with MPI_THREAD_FUNNELED. kFailedPrecondition when the process was not started by mpirun
  // (MPI would otherwise try to start a daemon of its own).
  static Result<std::unique_ptr<MpiSession>> Create();
  // MPI_Finalize, which waits for the other ranks. Left out after Abandon().
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }
  // This rank failed: do not wait for the others at the end. The exit code, not zero, then ends
  // the job.
  void Abandon() { abandoned_ = true; }

 private:
  MpiSession(uint32_t rank, uint32_t size) : rank_(rank), size_(size) {}
  const uint32_t rank_;
  const uint32_t size_;
  bool abandoned_ = false;
};

}  // namespace baton::ranks
