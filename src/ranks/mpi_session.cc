#include "src/ranks/mpi_session.h"

#include <fmt/format.h>
#include <mpi.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace baton::ranks {
namespace {

// For MpiJob::RankPids. Moved into place, so that a reader finds the whole number or no file.
Status WritePidFile(const char* folder, const char* rank) {
  const std::string path = fmt::format("{}/rank-{}.pid", folder, rank);
  const std::string draft = path + ".new";
  std::ofstream file(draft);
  file << getpid() << '\n';
  file.close();
  if (!file || rename(draft.c_str(), path.c_str()) != 0) {
    return UnavailableError(fmt::format("cannot write {}: {}", path, strerror(errno)));
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<MpiSession>> MpiSession::Create() {
  const char* rank_text = getenv("OMPI_COMM_WORLD_RANK");
  if (rank_text == nullptr) {
    return FailedPreconditionError(
        "this process is one rank of an MPI job and was not started by mpirun; start the job with "
        "`baton instance`, which does that");
  }
  // mpirun itself does not end its ranks when it is killed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char* folder = getenv("BATON_JOB_FOLDER");
  if (folder != nullptr) BATON_RETURN_IF_ERROR(WritePidFile(folder, rank_text));

  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_FUNNELED) {
    return UnavailableError(fmt::format("MPI does not start (thread level {})", provided));
  }
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return std::unique_ptr<MpiSession>(
      new MpiSession(static_cast<uint32_t>(rank), static_cast<uint32_t>(size)));
}

MpiSession::~MpiSession() {
  if (!abandoned_) MPI_Finalize();
}

}  // namespace baton::ranks
