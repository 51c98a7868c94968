// Logs to stderr, one line an event: "2026-01-31T12:00:00.123Z W controller-0 text". Results of a
// command never go through here. Thread-safe.
//
//   LOG(kInfo, "slot {} leased to {}", slot, instance);
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace baton {

enum class LogLevel : int { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

// `who` names the process in each line ("generation-0/rank0"). Call once, before threads start.
void InitLog(std::string_view who, LogLevel level);
// "debug", "info", "warning", "error"; false when the name is none of them.
bool ParseLogLevel(std::string_view name, LogLevel* level);
bool LogEnabled(LogLevel level);
void LogLine(LogLevel level, std::string_view text);

}  // namespace baton

#define LOG(level, ...)                                                       \
  do {                                                                        \
    if (::baton::LogEnabled(::baton::LogLevel::level))                        \
      ::baton::LogLine(::baton::LogLevel::level, ::fmt::format(__VA_ARGS__)); \
  } while (false)
