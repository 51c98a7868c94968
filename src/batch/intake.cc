#include "src/batch/intake.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace baton::batch {

Result<std::unique_ptr<Intake>> Intake::Open(const IntakeOptions& options) {
  ASSIGN_OR_RETURN(ReadFn read, OpenToRead(options.path));
  return std::unique_ptr<Intake>(new Intake(options, std::move(read)));
}

std::variant<BatchLine, LineFault> Intake::Judge(const RawLine& raw) {
  if (raw.too_long) {
    return LineFault{.code = "invalid_json_line",
                     .message = fmt::format("{} bytes, at most {} are allowed", raw.bytes,
                                            options_.line_bytes_max),
                     .param = {},
                     .custom_id = {},
                     .body_refused = false};
  }
  auto translated = TranslateLine(raw.text, options_.translate);
  const BatchLine* good = std::get_if<BatchLine>(&translated);
  const std::string& custom_id =
      good != nullptr ? good->custom_id : std::get<LineFault>(translated).custom_id;
  if (!custom_id.empty() && !seen_.Insert(custom_id)) {
    return LineFault{.code = "duplicate_custom_id",
                     .message = "'custom_id' was used by a line before this one",
                     .param = "custom_id",
                     .custom_id = custom_id,
                     .body_refused = false};
  }
  return translated;
}

Result<std::optional<Item>> Intake::Next() {
  ASSIGN_OR_RETURN(const std::optional<RawLine> raw, reader_.Next());
  if (!raw) return std::optional<Item>();
  if (raw->number > options_.lines_max) {
    return ResourceExhaustedError(fmt::format("too_many_tasks: {} has more than {} lines",
                                              options_.path, options_.lines_max));
  }
  Item item;
  item.content_hash = XXH3_64bits(raw->text.data(), raw->text.size());
  item.bytes = raw->bytes;
  item.line.number = raw->number;
  item.line.request_id = MakeRequestId(options_.job, raw->number, item.content_hash);
  auto judged = Judge(*raw);
  if (auto* fault = std::get_if<LineFault>(&judged)) {
    item.line.custom_id = fault->custom_id;
    item.what = std::move(*fault);
  } else {
    BatchLine& line = std::get<BatchLine>(judged);
    item.line.custom_id = std::move(line.custom_id);
    item.line.endpoint = line.endpoint;
    item.line.model = line.request.model;
    item.what = std::move(line.request);
  }
  return std::optional<Item>(std::move(item));
}

}  // namespace baton::batch
