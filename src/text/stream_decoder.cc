#include "src/text/tokenizer.h"
#include "src/text/utf8.h"

namespace baton::text {

std::string StreamDecoder::Push(int32_t token) {
  const Result<std::string> bytes = tokenizer_->DecodeBytes({&token, 1}, /*keep_special=*/false);
  if (!bytes.ok()) return {};
  pending_ += *bytes;
  std::string text;
  pending_.erase(0, AppendUtf8Lossy(pending_, /*last=*/false, &text));
  return text;
}

std::string StreamDecoder::Finish() {
  std::string text;
  AppendUtf8Lossy(pending_, /*last=*/true, &text);
  pending_.clear();
  return text;
}

}  // namespace baton::text
