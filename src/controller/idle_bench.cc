// What a controller costs when idle and adds to a request, over the embedded cluster: its own CPU
// time, and the time from submit to result with an instance that answers at once (unsplit: one
// assignment). Prints figures; asserts nothing.
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/bus/kafka/embedded.h"
#include "src/client/client.h"
#include "src/controller/testing.h"

namespace baton::controller {
namespace {

double ThreadCpuSeconds(std::thread& thread) {
  clockid_t clock_id;
  timespec spec{};
  if (pthread_getcpuclockid(thread.native_handle(), &clock_id) != 0) return 0;
  clock_gettime(clock_id, &spec);
  return static_cast<double>(spec.tv_sec) + static_cast<double>(spec.tv_nsec) * 1e-9;
}

void Main(double idle_seconds, int requests) {
  InitLog("bench", LogLevel::kWarning);
  const wire::Topics topics("bench");
  std::vector<bus::TopicSettings> all;
  for (const wire::TopicSpec& spec : topics.All()) all.push_back({spec.name, spec.partitions, {}});
  auto cluster = bus::EmbeddedCluster::Start(all);
  CHECK(cluster.ok(), cluster.status().ToString());
  auto made = bus::MakeKafkaBus((*cluster)->Options());
  CHECK(made.ok(), made.status().ToString());
  bus::Bus* bus = made->get();

  Options options;
  options.topics = topics;
  auto controller = Controller::Create(options, bus, &RealClock());
  CHECK(controller.ok(), controller.status().ToString());
  std::atomic<bool> stop{false};
  std::thread run([&] { CHECK_OK((*controller)->Run(stop)); });
  std::thread instance([&] {
    testing::Actor actor(bus, &RealClock(), topics, "m0", wire::Role::kMixed);
    while (!stop) {
      actor.Step();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  client::Options client_options;
  client_options.topics = topics;
  auto client = client::Client::Create(bus, client_options);
  CHECK(client.ok(), client.status().ToString());

  std::vector<double> ms;
  const auto request = [&](int i) {
    wire::Request one;
    one.id = {"t", std::to_string(i)};
    one.prompt_text = "hello";
    const MonoTime begin = RealClock().Now();
    CHECK_OK((*client)->Submit(one));
    while (true) {
      auto received = (*client)->Poll(std::chrono::milliseconds(100));
      CHECK(received.ok(), received.status().ToString());
      if (*received) break;
    }
    ms.push_back(static_cast<double>((RealClock().Now() - begin).count()) * 1e-6);
  };
  for (int i = 0; i < requests; ++i) request(i);
  ms.erase(ms.begin(), ms.begin() + requests / 10);
  std::sort(ms.begin(), ms.end());
  std::printf("submit to result, one at a time: p50 %.2f ms, p99 %.2f ms (%zu)\n",
              ms[ms.size() / 2], ms[ms.size() * 99 / 100], ms.size());

  const double before = ThreadCpuSeconds(run);
  std::this_thread::sleep_for(std::chrono::duration<double>(idle_seconds));
  std::printf("idle controller thread: %.2f %% of a core\n",
              (ThreadCpuSeconds(run) - before) / idle_seconds * 100);
  stop = true;
  run.join();
  instance.join();
}

}  // namespace
}  // namespace baton::controller

int main() {
  baton::controller::Main(/*idle_seconds=*/5, /*requests=*/300);
  return 0;
}
