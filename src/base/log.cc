#include "src/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

namespace baton {
namespace {

std::atomic<int> g_level{static_cast<int>(LogLevel::kInfo)};

// Leaked on purpose: threads may log while the process ends.
std::shared_ptr<spdlog::logger>& Logger() {
  static auto* logger = [] {
    auto* made = new std::shared_ptr<spdlog::logger>(std::make_shared<spdlog::logger>(
        "baton", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
    (*made)->set_level(spdlog::level::trace);
    (*made)->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %L %v", spdlog::pattern_time_type::utc);
    return made;
  }();
  return *logger;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void InitLog(std::string_view who, LogLevel level) {
  g_level.store(static_cast<int>(level));
  Logger()->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %L " + std::string(who) + " %v",
                        spdlog::pattern_time_type::utc);
}

bool ParseLogLevel(std::string_view name, LogLevel* level) {
  if (name == "debug")
    *level = LogLevel::kDebug;
  else if (name == "info")
    *level = LogLevel::kInfo;
  else if (name == "warning")
    *level = LogLevel::kWarning;
  else if (name == "error")
    *level = LogLevel::kError;
  else
    return false;
  return true;
}

bool LogEnabled(LogLevel level) {
  return static_cast<int>(level) >= g_level.load(std::memory_order_relaxed);
}

void LogLine(LogLevel level, std::string_view text) {
  Logger()->log(ToSpdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace baton
