// The golden files and the model that they were made from.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "src/model/model.h"

namespace baton::parity {

// The model file of the tests, loaded once. CHECKs that it is there.
const model::Model& RealModel();
// golden/<name>, parsed, keys in the order of the file. CHECKs that it is there.
nlohmann::ordered_json ReadGolden(const std::string& name);

}  // namespace baton::parity
