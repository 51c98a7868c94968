#include "src/bus/kafka/handle.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <string_view>
#include <utility>

#include "src/base/log.h"
#include "src/bus/kafka/settings.h"

namespace baton::bus::kafka {
namespace {

constexpr int kSyslogWarning = 4;
constexpr int kSyslogInfo = 6;
constexpr Nanos kLogInterval = std::chrono::seconds(1);

// "[thrd:x]: text" without the thread.
std::string WithoutThread(std::string_view text) {
  const size_t end = text.starts_with("[thrd:") ? text.find("]: ") : text.npos;
  return std::string(end == text.npos ? text : text.substr(end + 3));
}

}  // namespace

// On librdkafka's threads, and inside rd_kafka_new() on ours.
void Handle::OnLog(const rd_kafka_t* rk, int level, const char* kind, const char* text) {
  if (rk == nullptr) return;
  if (auto* handle = static_cast<Handle*>(rd_kafka_opaque(rk)))
    handle->log_.Line(level, kind, text);
}

void HandleLog::Line(int syslog_level, const char* kind, const char* text) {
  int left_out = 0;
  {
    std::lock_guard lock(mutex_);
    // The reason of one connection; other lines only count brokers that are down.
    if (std::string_view(kind) == "FAIL") last_failure_ = WithoutThread(text);
    const MonoTime now = RealClock().Now();
    const auto [found, fresh] = kinds_.try_emplace(kind);
    if (!fresh && now - found->second.last < kLogInterval) {
      ++found->second.left_out;
      return;
    }
    found->second.last = now;
    left_out = std::exchange(found->second.left_out, 0);
  }
  const std::string more = left_out == 0 ? "" : fmt::format(" ({} like it left out)", left_out);
  if (syslog_level <= kSyslogWarning) {
    LOG(kWarning, "kafka {}: {} {}{}", name_, kind, text, more);
  } else if (syslog_level <= kSyslogInfo) {
    LOG(kInfo, "kafka {}: {} {}{}", name_, kind, text, more);
  } else {
    LOG(kDebug, "kafka {}: {} {}{}", name_, kind, text, more);
  }
}

std::string HandleLog::last_failure() const {
  std::lock_guard lock(mutex_);
  return last_failure_;
}

Result<std::unique_ptr<Handle>> Handle::Make(const KafkaOptions& options, rd_kafka_type_t type,
                                             const std::string& name, DeliveredFn delivered) {
  const std::string client_id = options.client_name + "-" + name;
  ASSIGN_OR_RETURN(ConfPtr conf, MakeConf(options, type, client_id));
  std::unique_ptr<Handle> handle(new Handle(client_id, options.bootstrap));
  rd_kafka_conf_set_opaque(conf.get(), handle.get());
  rd_kafka_conf_set_log_cb(conf.get(), OnLog);
  if (delivered != nullptr) rd_kafka_conf_set_dr_msg_cb(conf.get(), delivered);
  char reason[512] = "";
  handle->rk_ = rd_kafka_new(type, conf.get(), reason, sizeof reason);
  if (handle->rk_ == nullptr) {
    return InvalidArgumentError(fmt::format("kafka client {}: {}", client_id, reason));
  }
  (void)conf.release();  // rd_kafka_new() took it
  if (type == RD_KAFKA_CONSUMER) rd_kafka_poll_set_consumer(handle->rk_);
  return handle;
}

rd_kafka_topic_t* Handle::Topic(const std::string& name) {
  const auto [found, fresh] = topics_.try_emplace(name, nullptr);
  if (fresh) found->second = rd_kafka_topic_new(rk_, name.c_str(), nullptr);
  return found->second;
}

Result<MetadataPtr> Handle::Metadata(bool all_topics, rd_kafka_topic_t* topic, Nanos timeout) {
  const rd_kafka_metadata_t* raw = nullptr;
  const rd_kafka_resp_err_t error =
      rd_kafka_metadata(rk_, all_topics ? 1 : 0, topic, &raw, std::max(1, TimeoutMs(timeout)));
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return Away(error);
  return MetadataPtr(raw);
}

Handle::~Handle() {
  for (const auto& [name, topic] : topics_) {
    if (topic != nullptr) rd_kafka_topic_destroy(topic);
  }
  // Without the close: there is no group to leave, and it would wait for a broker that is away.
  if (rk_ != nullptr) rd_kafka_destroy_flags(rk_, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

Status Handle::Away(rd_kafka_resp_err_t error) const {
  const std::string failure = log_.last_failure();
  return UnavailableError(fmt::format("broker {} is away: {}", bootstrap_,
                                      failure.empty() ? rd_kafka_err2str(error) : failure));
}

int TimeoutMs(Nanos timeout) {
  if (timeout <= Nanos::zero()) return 0;
  return static_cast<int>(std::min<int64_t>((timeout.count() + 999'999) / 1'000'000, INT_MAX));
}

}  // namespace baton::bus::kafka
