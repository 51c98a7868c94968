// The program that launch tests run as a rank, and as a launcher that gets killed.
//
//   rank_helper exchange           a ring of messages, then exit 0
//   rank_helper exit <rank> <n>    that rank exits with n, the others wait
//   rank_helper wait               every rank waits for SIGTERM, then ends in order
//   rank_helper deaf               every rank ignores SIGTERM and waits
//   rank_helper print              every rank writes one line to stdout
//   rank_helper launch             starts a job of `deaf` ranks, prints their pids, waits
//   rank_helper controller|instance --config <file>
//                                  as a member of a local cluster: BATON_TEST_INSTANCE says what
//                                  an instance does (crash, usage, job); otherwise it waits
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "src/launch/exit_codes.h"
#include "src/launch/mpi_job.h"
#include "src/launch/process.h"
#include "src/ranks/mpi_session.h"

namespace {

volatile sig_atomic_t g_terminated = 0;
void OnTerm(int) { g_terminated = 1; }

void WaitForTerm() {
  sigset_t term;
  sigset_t before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, &before);
  while (g_terminated == 0) sigsuspend(&before);
}

int Exchange(const baton::ranks::MpiSession& session) {
  const int rank = static_cast<int>(session.rank());
  const int size = static_cast<int>(session.size());
  for (int round = 0; round < 50; ++round) {
    // 64 KiB goes beyond the eager limit: the shared segments and not only a mailbox are in use.
    std::vector<int> sent(16384, rank * 1000 + round);
    std::vector<int> received(16384);
    std::array<MPI_Request, 2> requests{};
    MPI_Irecv(received.data(), 16384, MPI_INT, (rank + size - 1) % size, round, MPI_COMM_WORLD,
              requests.data());
    MPI_Isend(sent.data(), 16384, MPI_INT, (rank + 1) % size, round, MPI_COMM_WORLD, &requests[1]);
    for (int done = 0; done == 0;) {
      MPI_Testall(2, requests.data(), &done, MPI_STATUSES_IGNORE);
      sched_yield();  // more ranks than cores
    }
    if (received[16383] != ((rank + size - 1) % size) * 1000 + round) return 3;
  }
  return 0;
}

int RunRank(const std::string& mode, int argc, char** argv) {
  auto session = baton::ranks::MpiSession::Create();
  if (!session.ok()) {
    std::fprintf(stderr, "%s\n", session.status().ToString().c_str());
    return 2;
  }
  if (mode == "exchange") return Exchange(**session);
  if (mode == "print") {
    std::printf("line of rank %u\n", (*session)->rank());
    return 0;
  }
  if (mode == "exit" && argc == 4 && std::to_string((*session)->rank()) == argv[2]) {
    (*session)->Abandon();
    return std::atoi(argv[3]);
  }
  if (mode == "deaf") signal(SIGTERM, SIG_IGN);
  WaitForTerm();
  return 0;
}

// A job of two ranks that ignore SIGTERM, below an instance that obeys it.
int RunInstance(const std::string& self) {
  const char* wish = std::getenv("BATON_TEST_INSTANCE");
  const std::string what = wish != nullptr ? wish : "";
  if (what == "crash" || what == "usage") {
    std::fprintf(stderr, "first line\nlast words of the instance\n");
    return what == "crash" ? 7 : baton::launch::kExitUsage;
  }
  if (what != "job") {
    WaitForTerm();
    return 0;
  }
  auto job = baton::launch::MpiJob::Start({"cluster-job", 2, {self, "deaf"}, {}, {}});
  if (!job.ok()) return 4;
  WaitForTerm();
  (*job)->Stop(std::chrono::milliseconds(100));
  return 0;
}

int RunLauncher(const std::string& self) {
  auto job = baton::launch::MpiJob::Start({"killed-launcher", 2, {self, "deaf"}, {}, {}});
  if (!job.ok()) return 4;
  auto pids = (*job)->RankPids(std::chrono::seconds(30));
  if (!pids.ok()) return 5;
  std::printf("%d %d %d\n", (*job)->pid(), (*pids)[0], (*pids)[1]);
  std::fflush(stdout);
  for (;;) pause();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto self = baton::launch::SelfExecutable();
  if (mode.empty() || !self.ok()) return 2;
  if (mode == "launch") return RunLauncher(*self);
  signal(SIGTERM, OnTerm);
  if (mode == "controller") {
    WaitForTerm();
    return 0;
  }
  if (mode == "instance") return RunInstance(*self);
  return RunRank(mode, argc, argv);
}
