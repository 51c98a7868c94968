#include "tests/parity/golden.h"

#include <fstream>
#include <memory>
#include <utility>

#include "src/base/check.h"
#include "src/model/loader.h"

namespace baton::parity {

const model::Model& RealModel() {
  static const std::unique_ptr<model::Model> model = [] {
    auto loaded = model::LoadModel("external/smollm2/model.gguf");
    CHECK(loaded.ok(), loaded.status().ToString());
    return std::move(loaded).value();
  }();
  return *model;
}

nlohmann::ordered_json ReadGolden(const std::string& name) {
  const std::string path = "tests/parity/golden/" + name;
  std::ifstream file(path);
  CHECK(file.is_open(), path);
  nlohmann::ordered_json golden =
      nlohmann::ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  CHECK(!golden.is_discarded(), path + " is not JSON");
  return golden;
}

}  // namespace baton::parity
