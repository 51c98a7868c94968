#include "src/base/ids.h"

#include <string_view>

namespace baton {
namespace {

void AppendEscaped(std::string_view part, std::string* key) {
  for (const char c : part) {
    if (c == '/')
      key->append("%2F");
    else if (c == '%')
      key->append("%25");
    else
      key->push_back(c);
  }
}

bool Unescape(std::string_view part, std::string* out) {
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] != '%') {
      out->push_back(part[i]);
      continue;
    }
    const std::string_view code = part.substr(i, 3);
    if (code == "%2F")
      out->push_back('/');
    else if (code == "%25")
      out->push_back('%');
    else
      return false;
    i += 2;
  }
  return true;
}

}  // namespace

std::string Identity::Key() const {
  std::string key;
  key.reserve(tenant.size() + request_id.size() + 1);
  AppendEscaped(tenant, &key);
  key.push_back('/');
  AppendEscaped(request_id, &key);
  return key;
}

bool Identity::FromKey(const std::string& key, Identity* identity) {
  const size_t slash = key.find('/');
  if (slash == std::string::npos || key.find('/', slash + 1) != std::string::npos) return false;
  identity->tenant.clear();
  identity->request_id.clear();
  return Unescape(std::string_view(key).substr(0, slash), &identity->tenant) &&
         Unescape(std::string_view(key).substr(slash + 1), &identity->request_id);
}

}  // namespace baton
