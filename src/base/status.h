// Errors as values. A code exists only where a caller branches on it; the message names the thing
// that is wrong and the cure. Thread-safe as plain values are.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace baton {

enum class StatusCode : int {
  kOk = 0,
  kInvalidArgument,     // the caller's input is wrong; retrying as it stands cannot help
  kNotFound,            // the named thing does not exist
  kAlreadyExists,       // the identity is taken by something else
  kResourceExhausted,   // a configured bound is reached; try later
  kFailedPrecondition,  // the system is not in the state that the call needs
  kUnavailable,         // a peer or the environment is away; retrying may help
  kDeadlineExceeded,    // the wait's or the request's deadline passed
  kCancelled,           // somebody asked for the end
  kAborted,             // fenced: a newer epoch, attempt or lease took over
  kDataLoss,            // bytes are missing or not what was written
  kInternal,            // a bug of ours or of a library
};

// "OK", "INVALID_ARGUMENT", ...
std::string_view StatusCodeName(StatusCode code);
// The inverse; kInternal for a name that is unknown.
StatusCode StatusCodeFromName(std::string_view name);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // "UNAVAILABLE: broker 127.0.0.1:9092 is away".
  std::string ToString() const;
  // The same code with "context: " before the message. OK stays OK.
  Status WithContext(std::string_view context) const;

  friend bool operator==(const Status&, const Status&) = default;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() { return {}; }

// The caller does not care about the outcome, and says so.
inline void IgnoreStatus(const Status&) {}

#define BATON_DEFINE_ERROR(Name)                      \
  inline Status Name##Error(std::string message) {    \
    return {StatusCode::k##Name, std::move(message)}; \
  }
BATON_DEFINE_ERROR(InvalidArgument)
BATON_DEFINE_ERROR(NotFound)
BATON_DEFINE_ERROR(AlreadyExists)
BATON_DEFINE_ERROR(ResourceExhausted)
BATON_DEFINE_ERROR(FailedPrecondition)
BATON_DEFINE_ERROR(Unavailable)
BATON_DEFINE_ERROR(DeadlineExceeded)
BATON_DEFINE_ERROR(Cancelled)
BATON_DEFINE_ERROR(Aborted)
BATON_DEFINE_ERROR(DataLoss)
BATON_DEFINE_ERROR(Internal)
#undef BATON_DEFINE_ERROR

}  // namespace baton

#define BATON_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                                  \
    if (::baton::Status baton_status = (expr); !baton_status.ok()) return baton_status; \
  } while (false)
