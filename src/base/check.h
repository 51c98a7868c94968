// CHECK: a broken invariant of ours ends the process, in release builds too. Never for input.
#pragma once

#include <string_view>

namespace baton {

// Writes "CHECK failed: ..." and a backtrace to stderr, then aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);

}  // namespace baton

#define BATON_CHECK_IMPL(condition, message)                         \
  do {                                                               \
    if (!(condition)) [[unlikely]]                                   \
      ::baton::CheckFailed(__FILE__, __LINE__, #condition, message); \
  } while (false)
#define BATON_CHECK_1(condition) BATON_CHECK_IMPL(condition, "")
#define BATON_CHECK_2(condition, message) BATON_CHECK_IMPL(condition, message)
#define BATON_CHECK_PICK(_1, _2, name, ...) name
// CHECK(condition) or CHECK(condition, message); the message is evaluated only on failure.
#define CHECK(...) BATON_CHECK_PICK(__VA_ARGS__, BATON_CHECK_2, BATON_CHECK_1, )(__VA_ARGS__)
#define CHECK_OK(expr)                                             \
  do {                                                             \
    const ::baton::Status baton_check_status = (expr);             \
    CHECK(baton_check_status.ok(), baton_check_status.ToString()); \
  } while (false)
