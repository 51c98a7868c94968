#include "src/model/gguf.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace baton::model {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kKeyBytesMax = 65535;
constexpr uint64_t kMetadataMax = 65536;
constexpr uint64_t kTensorsMax = 1 << 20;
constexpr uint64_t kArrayMax = 1 << 24;  // largest vocabularies have 2^18 entries
constexpr uint64_t kAlignmentMax = 1 << 20;
constexpr uint32_t kDimensionsMax = 4;
// What one entry takes in the file at least: a length or an id each.
constexpr uint64_t kMetadataBytesMin = 8 + 4 + 1;
constexpr uint64_t kTensorBytesMin = 8 + 4 + 8 + 4 + 8;

enum ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

static_assert(std::endian::native == std::endian::little, "values are copied as they lie");

}  // namespace

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, std::string name) : bytes_(bytes) {
    file_.name_ = std::move(name);
  }

  Result<Gguf> Run() {
    BATON_RETURN_IF_ERROR(Header());
    for (uint64_t i = 0; i < metadata_count_; ++i) BATON_RETURN_IF_ERROR(Metadata());
    BATON_RETURN_IF_ERROR(Alignment());
    for (uint64_t i = 0; i < tensor_count_; ++i) BATON_RETURN_IF_ERROR(TensorInfo());
    BATON_RETURN_IF_ERROR(PlaceTensors());
    return std::move(file_);
  }

 private:
  Status Bad(std::string_view why) const {
    return InvalidArgumentError(fmt::format("{} at byte {}: {}", file_.name_, at_, why));
  }

  uint64_t left() const { return bytes_.size() - at_; }

  template <typename T>
  Status Read(T* value) {
    if (left() < sizeof(T)) {
      return Bad(fmt::format("the file ends where {} bytes are expected", sizeof(T)));
    }
    memcpy(value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return OkStatus();
  }

  Status ReadString(uint64_t max, std::string_view* text) {
    uint64_t length = 0;
    BATON_RETURN_IF_ERROR(Read(&length));
    if (length > left())
      return Bad(fmt::format("a text of {} bytes ends outside the file", length));
    if (length > max) return Bad(fmt::format("a text of {} bytes is longer than {}", length, max));
    *text = {reinterpret_cast<const char*>(bytes_.data() + at_), length};
    at_ += length;
    return OkStatus();
  }

  Status Header() {
    uint32_t magic = 0;
    if (left() < sizeof(magic)) return Bad("not a GGUF file: too short");
    BATON_RETURN_IF_ERROR(Read(&magic));
    if (magic != kMagic) {
      at_ = 0;
      return Bad("not a GGUF file: it does not begin with \"GGUF\"");
    }
    uint32_t version = 0;
    BATON_RETURN_IF_ERROR(Read(&version));
    if (version != 2 && version != 3) {
      return Bad(fmt::format("GGUF version {} is not supported, 2 and 3 are", version));
    }
    BATON_RETURN_IF_ERROR(Read(&tensor_count_));
    BATON_RETURN_IF_ERROR(Read(&metadata_count_));
    if (tensor_count_ > kTensorsMax || tensor_count_ > left() / kTensorBytesMin) {
      return Bad(fmt::format("{} tensors cannot be in a file of this size", tensor_count_));
    }
    if (metadata_count_ > kMetadataMax || metadata_count_ > left() / kMetadataBytesMin) {
      return Bad(fmt::format("{} metadata entries cannot be in this file", metadata_count_));
    }
    return OkStatus();
  }

  template <typename T, typename To>
  Status ReadAs(GgufValue* value) {
    T raw{};
    BATON_RETURN_IF_ERROR(Read(&raw));
    value->emplace<To>(static_cast<To>(raw));
    return OkStatus();
  }

  Status Scalar(uint32_t type, GgufValue* value) {
    switch (type) {
      case kUint8:
        return ReadAs<uint8_t, uint64_t>(value);
      case kInt8:
        return ReadAs<int8_t, int64_t>(value);
      case kUint16:
        return ReadAs<uint16_t, uint64_t>(value);
      case kInt16:
        return ReadAs<int16_t, int64_t>(value);
      case kUint32:
        return ReadAs<uint32_t, uint64_t>(value);
      case kInt32:
        return ReadAs<int32_t, int64_t>(value);
      case kUint64:
        return ReadAs<uint64_t, uint64_t>(value);
      case kInt64:
        return ReadAs<int64_t, int64_t>(value);
      case kFloat32:
        return ReadAs<float, double>(value);
      case kFloat64:
        return ReadAs<double, double>(value);
      case kBool: {
        uint8_t raw = 0;
        BATON_RETURN_IF_ERROR(Read(&raw));
        if (raw > 1) return Bad(fmt::format("a bool holds {}", raw));
        value->emplace<bool>(raw == 1);
        return OkStatus();
      }
      case kString: {
        std::string_view text;
        BATON_RETURN_IF_ERROR(ReadString(UINT64_MAX, &text));
        value->emplace<std::string_view>(text);
        return OkStatus();
      }
      default:
        return Bad(fmt::format("value type {} does not exist", type));
    }
  }

  template <typename T, typename To>
  Status ReadMany(uint64_t count, GgufArray* array) {
    auto& out = array->emplace<std::vector<To>>();
    if (count > left() / sizeof(T)) {
      return Bad(fmt::format("an array of {} values ends outside the file", count));
    }
    out.resize(count);
    for (To& value : out) {
      T raw{};
      memcpy(&raw, bytes_.data() + at_, sizeof(T));
      at_ += sizeof(T);
      value = static_cast<To>(raw);
    }
    return OkStatus();
  }

  Status Strings(uint64_t count, GgufArray* array) {
    auto& out = array->emplace<std::vector<std::string_view>>();
    if (count > left() / sizeof(uint64_t)) {
      return Bad(fmt::format("an array of {} texts ends outside the file", count));
    }
    out.resize(count);
    for (std::string_view& text : out) BATON_RETURN_IF_ERROR(ReadString(UINT64_MAX, &text));
    return OkStatus();
  }

  Status Array(GgufValue* value) {
    uint32_t type = 0;
    uint64_t count = 0;
    BATON_RETURN_IF_ERROR(Read(&type));
    BATON_RETURN_IF_ERROR(Read(&count));
    if (count > kArrayMax) {
      return Bad(fmt::format("an array of {} values is longer than {}", count, kArrayMax));
    }
    auto* array = &value->emplace<GgufArray>();
    switch (type) {
      case kUint8:
        return ReadMany<uint8_t, int64_t>(count, array);
      case kInt8:
        return ReadMany<int8_t, int64_t>(count, array);
      case kBool:
        return ReadMany<uint8_t, int64_t>(count, array);
      case kUint16:
        return ReadMany<uint16_t, int64_t>(count, array);
      case kInt16:
        return ReadMany<int16_t, int64_t>(count, array);
      case kUint32:
        return ReadMany<uint32_t, int64_t>(count, array);
      case kInt32:
        return ReadMany<int32_t, int64_t>(count, array);
      case kUint64:
        return ReadMany<uint64_t, int64_t>(count, array);
      case kInt64:
        return ReadMany<int64_t, int64_t>(count, array);
      case kFloat32:
        return ReadMany<float, double>(count, array);
      case kFloat64:
        return ReadMany<double, double>(count, array);
      case kString:
        return Strings(count, array);
      case kArray:
        return Bad("an array of arrays is not supported");
      default:
        return Bad(fmt::format("value type {} does not exist", type));
    }
  }

  Status Metadata() {
    std::string_view key;
    BATON_RETURN_IF_ERROR(ReadString(kKeyBytesMax, &key));
    if (file_.metadata_.contains(key)) {
      return Bad(fmt::format("metadata key '{}' occurs twice", key));
    }
    uint32_t type = 0;
    BATON_RETURN_IF_ERROR(Read(&type));
    GgufValue value;
    const Status status = type == kArray ? Array(&value) : Scalar(type, &value);
    if (!status.ok()) return status.WithContext(fmt::format("metadata '{}'", key));
    file_.metadata_.emplace(key, std::move(value));
    return OkStatus();
  }

  Status Alignment() {
    if (file_.Find("general.alignment") == nullptr) return OkStatus();
    ASSIGN_OR_RETURN(alignment_, file_.Uint("general.alignment", kAlignmentMax));
    if (!std::has_single_bit(alignment_)) {
      return Bad(fmt::format("general.alignment {} is not a power of two", alignment_));
    }
    return OkStatus();
  }

  Status TensorInfo() {
    GgufTensor tensor;
    BATON_RETURN_IF_ERROR(ReadString(kKeyBytesMax, &tensor.name));
    uint32_t dimensions = 0;
    BATON_RETURN_IF_ERROR(Read(&dimensions));
    if (dimensions == 0 || dimensions > kDimensionsMax) {
      return Bad(fmt::format("tensor '{}' has {} dimensions, 1 to {} are supported", tensor.name,
                             dimensions, kDimensionsMax));
    }
    tensor.shape.resize(dimensions);
    uint64_t values = 1;
    for (uint64_t& size : tensor.shape) {
      BATON_RETURN_IF_ERROR(Read(&size));
      if (size == 0 || __builtin_mul_overflow(values, size, &values)) {
        return Bad(fmt::format("tensor '{}' has an empty or an overflowing shape", tensor.name));
      }
    }
    uint32_t type = 0;
    uint64_t offset = 0;
    BATON_RETURN_IF_ERROR(Read(&type));
    BATON_RETURN_IF_ERROR(Read(&offset));
    const TypeInfo* info = InfoOf(type);
    if (info == nullptr) {
      return Bad(fmt::format("tensor '{}' has type {}, supported are {}", tensor.name, type,
                             SupportedTypes()));
    }
    if (tensor.columns() % info->block_values != 0) {
      return Bad(fmt::format("tensor '{}' has rows of {} values, {} needs a multiple of {}",
                             tensor.name, tensor.columns(), info->name, info->block_values));
    }
    if (offset % alignment_ != 0) {
      return Bad(fmt::format("tensor '{}' lies at offset {}, not a multiple of {}", tensor.name,
                             offset, alignment_));
    }
    uint64_t size = 0;
    if (__builtin_mul_overflow(values / info->block_values, uint64_t{info->block_bytes}, &size)) {
      return Bad(fmt::format("tensor '{}' has an overflowing size", tensor.name));
    }
    tensor.type = static_cast<TensorType>(type);
    if (!file_.tensor_index_.emplace(tensor.name, file_.tensors_.size()).second) {
      return Bad(fmt::format("tensor '{}' occurs twice", tensor.name));
    }
    file_.tensors_.push_back(std::move(tensor));
    places_.push_back({offset, size});
    return OkStatus();
  }

  Status PlaceTensors() {
    const uint64_t start = (at_ + alignment_ - 1) / alignment_ * alignment_;
    for (size_t i = 0; i < places_.size(); ++i) {
      const auto [offset, size] = places_[i];
      if (start > bytes_.size() || offset > bytes_.size() - start ||
          size > bytes_.size() - start - offset) {
        return Bad(fmt::format("tensor '{}' ({} bytes at offset {}) ends outside the file",
                               file_.tensors_[i].name, size, offset));
      }
      file_.tensors_[i].data = bytes_.subspan(start + offset, size);
    }
    return OkStatus();
  }

  struct Place {
    uint64_t offset;
    uint64_t bytes;
  };

  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
  uint64_t tensor_count_ = 0;
  uint64_t metadata_count_ = 0;
  uint64_t alignment_ = 32;
  std::vector<Place> places_;  // of each tensor, relative to the data section
  Gguf file_;
};

Result<Gguf> Gguf::Parse(std::span<const std::byte> bytes, std::string name) {
  return GgufParser(bytes, std::move(name)).Run();
}

const GgufTensor* Gguf::FindTensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

const GgufValue* Gguf::Find(std::string_view key) const {
  const auto it = metadata_.find(key);
  return it == metadata_.end() ? nullptr : &it->second;
}

Result<uint64_t> Gguf::Uint(std::string_view key, uint64_t max) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return InvalidArgumentError(fmt::format("{} lacks '{}'", name_, key));
  uint64_t number = 0;
  if (const auto* u = std::get_if<uint64_t>(value)) {
    number = *u;
  } else if (const auto* i = std::get_if<int64_t>(value); i != nullptr && *i >= 0) {
    number = static_cast<uint64_t>(*i);
  } else {
    return InvalidArgumentError(fmt::format("{}: '{}' is no whole number >= 0", name_, key));
  }
  if (number > max) {
    return InvalidArgumentError(fmt::format("{}: '{}' is {}, above {}", name_, key, number, max));
  }
  return number;
}

Result<double> Gguf::Float(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return InvalidArgumentError(fmt::format("{} lacks '{}'", name_, key));
  if (const auto* number = std::get_if<double>(value)) return *number;
  return InvalidArgumentError(fmt::format("{}: '{}' is no floating point number", name_, key));
}

Result<std::string> Gguf::String(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return InvalidArgumentError(fmt::format("{} lacks '{}'", name_, key));
  if (const auto* text = std::get_if<std::string_view>(value)) return std::string(*text);
  return InvalidArgumentError(fmt::format("{}: '{}' is no text", name_, key));
}

}  // namespace baton::model
