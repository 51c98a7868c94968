// Any bytes as a batch file: cut into lines, each translated. What is accepted must be a request
// that every later stage accepts; whatever comes of a line must be one line of JSON that names it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/check.h"
#include "src/batch/reader.h"
#include "src/batch/seen_ids.h"
#include "src/batch/translate.h"
#include "src/wire/codec.h"

namespace baton::batch {
namespace {

// Small, so that a small input reaches it and 2 000 mutations fit a minute under a sanitizer.
constexpr size_t kLineBytesMax = 600;

ReadFn FromBytes(std::string_view bytes) {
  return [bytes](char* buffer, size_t size) mutable -> Result<size_t> {
    const size_t piece = std::min<size_t>({size, bytes.size(), 61});
    bytes.copy(buffer, piece);
    bytes.remove_prefix(piece);
    return piece;
  };
}

void CheckRow(const std::string& row, const LineInfo& line) {
  CHECK(row.find('\n') == std::string::npos);
  RowName name;
  CHECK(ReadRowName(row, &name));
  CHECK(name.line == line.number);
}

void CheckRequest(BatchLine translated, LineInfo line) {
  line.endpoint = translated.endpoint;
  line.model = translated.request.model;
  wire::Request& request = translated.request;
  request.id = {"tenant", line.request_id};
  CHECK_OK(wire::ValidateRequest(request));
  const auto back = wire::DecodeRequest(wire::Encode(request));
  CHECK_OK(back.status());
  CHECK(*back == request);
  wire::ResultRecord result;
  // Any bytes a model may produce.
  result.output.text = line.custom_id + "\xff" + request.prompt_text;
  result.output.logprobs.resize(1);
  CheckRow(RowOfResult(line, result, 0).json, line);
}

void ReadAll(std::string_view bytes) {
  LineReader reader(FromBytes(bytes), kLineBytesMax);
  SeenIds seen;
  uint64_t total = 0;
  for (;;) {
    const auto raw = reader.Next();
    CHECK_OK(raw.status());
    if (!raw->has_value()) break;
    total += (*raw)->bytes;
    CHECK((*raw)->text.size() <= kLineBytesMax);
    LineInfo line{.number = (*raw)->number,
                  .custom_id = {},
                  .request_id = MakeRequestId("job", (*raw)->number, 17),
                  .endpoint = Endpoint::kChat,
                  .model = {}};
    auto translated = TranslateLine((*raw)->text, {});
    if (auto* fault = std::get_if<LineFault>(&translated)) {
      line.custom_id = fault->custom_id;
      CheckRow(FaultRow(line, *fault), line);
    } else {
      line.custom_id = std::get<BatchLine>(translated).custom_id;
      CheckRequest(std::get<BatchLine>(std::move(translated)), line);
    }
    seen.Insert(line.custom_id);
  }
  CHECK(total == bytes.size());
}

}  // namespace
}  // namespace baton::batch

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  baton::batch::ReadAll(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
