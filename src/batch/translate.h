// One line of OpenAI batch input -> wire::Request, and its answer -> one line of OpenAI batch
// output. Pure; nothing here throws and no JSON type leaves the room.
//
// Served: POST /v1/chat/completions and /v1/completions. Fields that would change the answer and
// are not served (tools, logit_bias, n > 1, stream, ...) are refused by name; unknown fields are
// ignored. A missing temperature means greedy, not OpenAI's 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "src/wire/messages.h"

namespace baton::batch {

enum class Endpoint : uint8_t { kChat = 0, kCompletions = 1 };

// Why a line did not become a request. `code` is OpenAI's where one exists.
struct LineFault {
  std::string code;       // "invalid_json_line", "duplicate_custom_id", "url_mismatch", ...
  std::string message;    // without the line number
  std::string param;      // the field, or empty
  std::string custom_id;  // empty: the line has none that can be read
  // True: the line is a request and its body is refused, as a server would with status 400.
  // False: the line is no request at all.
  bool body_refused = false;
};

// What a row of output needs to know of its line besides the answer.
struct LineInfo {
  uint64_t number = 0;     // from 1
  std::string custom_id;   // empty: none could be read
  std::string request_id;  // unique to (job, line number, content)
  Endpoint endpoint = Endpoint::kChat;
  std::string model;
};

struct BatchLine {
  std::string custom_id;
  Endpoint endpoint = Endpoint::kChat;
  wire::Request request;  // id, job, priority and deadline are left to the caller
};

struct TranslateOptions {
  // For a line that names none. OpenAI's own default for completions is 16 and for chat the rest of
  // the context, which no admission could plan for.
  uint32_t chat_max_tokens = 512;
  uint32_t completions_max_tokens = 16;
  std::string model;  // instead of each line's own, if not empty
};

// `text`: the line without its end. What comes back as a request passes wire::ValidateRequest once
// it has an id.
std::variant<BatchLine, LineFault> TranslateLine(std::string_view text,
                                                 const TranslateOptions& options);

// ------------------------------------------------------------------------------- rows of output

// "batch_req_<request_id>": the row's own id, by which a resumed job knows it again.
std::string RowId(const LineInfo& line);

// A line that did not run: of the error file. One line without its newline, as all below.
std::string FaultRow(const LineInfo& line, const LineFault& fault);

struct ResultRow {
  std::string json;
  bool is_error = false;  // belongs into the error file
};
// `created_s`: seconds since 1970.
ResultRow RowOfResult(const LineInfo& line, const wire::ResultRecord& result, int64_t created_s);

// What a row says about itself, read back.
struct RowName {
  uint64_t line = 0;
  uint64_t content_hash = 0;
};
// False when `json` is no whole row written by this program.
bool ReadRowName(std::string_view json, RowName* name);

// The id of a line's request: the same line of the same job always has the same one.
std::string MakeRequestId(const std::string& job, uint64_t line, uint64_t content_hash);

}  // namespace baton::batch
