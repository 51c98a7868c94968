#include "src/model/config.h"

#include <fmt/format.h>

namespace baton::model {

std::string Config::RopeText() const {
  return fmt::format("base={} dims={} style=llama", rope_base, rope_dims);
}

}  // namespace baton::model
