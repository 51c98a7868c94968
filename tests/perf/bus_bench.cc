// What the bus costs: one hop, the whole path of a request (six records), and bulk production, on
// the embedded cluster and on a real broker of this machine. Prints one JSON object. Arrivals are
// open loop: a record is due at a fixed time and its latency counts from there, so a stall is paid
// by every record behind it. Every run uses fresh topics; a warm-up is left out.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/bus/kafka/embedded.h"
#include "src/bus/kafka/kafka_bus.h"
#include "src/bus/testing/real_broker.h"

namespace baton::bus {
namespace {

using nlohmann::json;

constexpr int kRuns = 3;
constexpr int kHopRate = 500;   // records a second
constexpr int kPathRate = 100;  // requests a second, of six records each
constexpr int kSeconds = 4;     // measured, after one second of warm-up
constexpr size_t kValueBytes = 1024;
constexpr int kBulkRecords = 200'000;
constexpr Nanos kPatience = std::chrono::seconds(30);

// A record carries the time when it was due in its first bytes.
std::string MakeValue(MonoTime due) {
  std::string value(kValueBytes, 'x');
  std::memcpy(value.data(), &due.ns, sizeof due.ns);
  return value;
}

MonoTime DueOf(const Record& record) {
  MonoTime due;
  std::memcpy(&due.ns, record.value->data(), sizeof due.ns);
  return due;
}

struct Percentiles {
  double p50_ms = 0;
  double p99_ms = 0;
};

Percentiles Summarise(std::vector<Nanos> latencies) {
  CHECK(!latencies.empty());
  std::sort(latencies.begin(), latencies.end());
  const auto at = [&](double part) {
    const auto index = static_cast<size_t>(part * static_cast<double>(latencies.size() - 1));
    return static_cast<double>(latencies[index].count()) / 1e6;
  };
  return {.p50_ms = at(0.50), .p99_ms = at(0.99)};
}

json MedianAndSpread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {{"median", values[values.size() / 2]}, {"min", values.front()}, {"max", values.back()}};
}

class Bench {
 public:
  explicit Bench(const KafkaOptions& options)
      : options_(options), bus_(MakeKafkaBus(options).value()) {}

  json Run() {
    std::vector<Percentiles> hops, paths;
    std::vector<double> bulks;
    for (int run = 0; run < kRuns; ++run) {
      hops.push_back(OneHop());
      paths.push_back(WholePath());
      bulks.push_back(Bulk());
    }
    return {{"one_hop", Report(hops, kHopRate)},
            {"whole_path", Report(paths, kPathRate)},
            {"bulk_produce_mb_s", MedianAndSpread(bulks)}};
  }

 private:
  static json Report(const std::vector<Percentiles>& runs, int rate) {
    std::vector<double> p50, p99;
    for (const Percentiles& run : runs) {
      p50.push_back(run.p50_ms);
      p99.push_back(run.p99_ms);
    }
    return {
        {"rate_per_s", rate}, {"p50_ms", MedianAndSpread(p50)}, {"p99_ms", MedianAndSpread(p99)}};
  }

  std::string MakeTopic(const std::string& what, int32_t partitions) {
    const std::string name = fmt::format("bench.{}.{}", what, made_++);
    CHECK_OK(bus_->Provision({{.name = name, .partitions = partitions}}, kPatience));
    return name;
  }

  std::unique_ptr<Consumer> Read(const std::string& topic, int32_t partition) {
    auto consumer = bus_->NewConsumer("bench").value();
    CHECK_OK(consumer->Assign({{topic, partition, kOffsetEnd}}));
    return consumer;
  }

  // Sends at `rate` on the calling thread while another one takes what comes out of `last`.
  Percentiles Drive(const std::string& first, Consumer& last, int rate) {
    const int warm = rate;
    const int total = rate * (kSeconds + 1);
    std::vector<Nanos> latencies;
    std::thread reader([&] {
      for (int i = 0; i < total; ++i) {
        const auto record = last.Poll(kPatience).value();
        CHECK(record.has_value(), "a record is missing");
        if (i >= warm) latencies.push_back(RealClock().Now() - DueOf(*record));
      }
    });
    auto producer = bus_->NewProducer("source").value();
    const MonoTime start = RealClock().Now() + std::chrono::milliseconds(100);
    for (int i = 0; i < total; ++i) {
      const MonoTime due = start + std::chrono::nanoseconds(1'000'000'000LL * i / rate);
      std::this_thread::sleep_for(due - RealClock().Now());
      CHECK_OK(producer->Produce({.topic = first, .partition = 0, .value = MakeValue(due)}, {}));
      producer->Poll(Nanos(0));
    }
    CHECK_OK(producer->Flush(kPatience));
    reader.join();
    return Summarise(std::move(latencies));
  }

  Percentiles OneHop() {
    const std::string topic = MakeTopic("hop", 1);
    auto consumer = Read(topic, 0);
    return Drive(topic, *consumer, kHopRate);
  }

  struct Target {
    std::string topic;
    int32_t partition = 0;
  };

  // Passes records on until told to stop: first to `ledger`, when there is one, and once that is
  // acknowledged to `to`.
  void Relay(Consumer& from, const Target& ledger, const Target& to,
             const std::atomic<bool>& stop) {
    auto producer = bus_->NewProducer("relay").value();
    while (!stop) {
      auto record = from.Poll(std::chrono::milliseconds(50)).value();
      if (!record) continue;
      if (!ledger.topic.empty()) {
        CHECK_OK(
            producer->Produce({.topic = ledger.topic, .partition = 0, .value = record->value}, {}));
        CHECK_OK(producer->Flush(kPatience));
      }
      CHECK_OK(producer->Produce(
          {.topic = to.topic, .partition = to.partition, .value = std::move(record->value)}, {}));
      producer->Poll(Nanos(0));
    }
    CHECK_OK(producer->Flush(kPatience));
  }

  // request -> ledger -> assign (context) -> event -> assign (generation) -> result, each role on a
  // thread of its own.
  Percentiles WholePath() {
    const std::string requests = MakeTopic("requests", 1), ledger = MakeTopic("ledger", 1),
                      assign = MakeTopic("assign", 2), events = MakeTopic("events", 1),
                      results = MakeTopic("results", 1);
    std::atomic<bool> stop{false};
    auto intake = Read(requests, 0), context = Read(assign, 0), reports = Read(events, 0),
         generation = Read(assign, 1), client = Read(results, 0);
    std::vector<std::thread> roles;
    roles.emplace_back([&] { Relay(*intake, {ledger}, {assign, 0}, stop); });
    roles.emplace_back([&] { Relay(*context, {}, {events}, stop); });
    roles.emplace_back([&] { Relay(*reports, {}, {assign, 1}, stop); });
    roles.emplace_back([&] { Relay(*generation, {}, {results}, stop); });
    const Percentiles result = Drive(requests, *client, kPathRate);
    stop = true;
    for (std::thread& role : roles) role.join();
    return result;
  }

  // Megabytes (10^6) of values a second, until the last one is acknowledged.
  double Bulk() {
    const std::string topic = MakeTopic("bulk", 1);
    KafkaOptions options = options_;
    options.settings["linger.ms"] = "5";
    auto bus = MakeKafkaBus(options).value();
    auto producer = bus->NewProducer("bulk").value();
    CHECK_OK(producer->Produce({.topic = topic, .partition = 0, .value = "warm"}, {}));
    CHECK_OK(producer->Flush(kPatience));
    const std::string value(kValueBytes, 'x');
    const MonoTime start = RealClock().Now();
    for (int i = 0; i < kBulkRecords; ++i) {
      for (;;) {
        const Status taken =
            producer->Produce({.topic = topic, .partition = 0, .value = value}, {});
        if (taken.ok()) break;
        CHECK(taken.code() == StatusCode::kResourceExhausted, taken.ToString());
        producer->Poll(std::chrono::milliseconds(10));
      }
    }
    CHECK_OK(producer->Flush(kPatience));
    const double seconds = static_cast<double>((RealClock().Now() - start).count()) / 1e9;
    return static_cast<double>(kValueBytes) * kBulkRecords / 1e6 / seconds;
  }

  const KafkaOptions options_;
  const std::unique_ptr<KafkaBus> bus_;
  int made_ = 0;
};

json RunAll() {
  json results = json::array();
  {
    auto cluster = EmbeddedCluster::Start({}).value();
    json one = Bench(cluster->Options()).Run();
    one["broker"] = "embedded";
    one["version"] = fmt::format("librdkafka {} mock", rd_kafka_version_str());
    results.push_back(std::move(one));
  }
  auto broker = RealBroker::Start({.heap_mb = 1024, .quick_start = false}).value();
  json one = Bench(broker->Options()).Run();
  one["broker"] = "Apache Kafka, one node, this machine";
  one["version"] = RealBroker::Version();
  results.push_back(std::move(one));
  return {{"bench", "bus"},
          {"client", fmt::format("librdkafka {}", rd_kafka_version_str())},
          {"cores", std::thread::hardware_concurrency()},
          {"value_bytes", kValueBytes},
          {"runs", kRuns},
          {"results", std::move(results)}};
}

}  // namespace
}  // namespace baton::bus

int main() {
  std::puts(baton::bus::RunAll().dump(2).c_str());
  return 0;
}
