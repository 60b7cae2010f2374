#include "common/weights/gguf_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "common/base/limits.h"
#include "common/base/units.h"
#include "common/tensor/stored_values.h"
#include "common/weights/gguf_cursor.h"

namespace krait {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint32_t kOldestVersion = 2;
constexpr uint32_t kNewestVersion = 3;
constexpr int64_t kDefaultAlignment = 32;
constexpr uint32_t kMaxAxes = 4;  // of the format
constexpr std::string_view kAlignmentKey = "general.alignment";

/// Types of tensors, by their numbers in the file; nothing for one that we do not read.
struct TensorType final {
  std::string_view name;
  std::optional<DType> dtype;
};
TensorType tensor_type(uint32_t number) {
  static constexpr auto kTypes = std::to_array<TensorType>(
      {{"F32", DType::kF32},  {"F16", DType::kF16}, {"Q4_0", DType::kQ40}, {"Q4_1", {}},          {"Q4_2", {}},
       {"Q4_3", {}},          {"Q5_0", {}},         {"Q5_1", {}},          {"Q8_0", DType::kQ80}, {"Q8_1", {}},
       {"Q2_K", {}},          {"Q3_K", {}},         {"Q4_K", {}},          {"Q5_K", {}},          {"Q6_K", DType::kQ6K},
       {"Q8_K", {}},          {"IQ2_XXS", {}},      {"IQ2_XS", {}},        {"IQ3_XXS", {}},       {"IQ1_S", {}},
       {"IQ4_NL", {}},        {"IQ3_S", {}},        {"IQ2_S", {}},         {"IQ4_XS", {}},        {"I8", DType::kI8},
       {"I16", DType::kI16},  {"I32", DType::kI32}, {"I64", DType::kI64},  {"F64", DType::kF64},  {"IQ1_M", {}},
       {"BF16", DType::kBF16}});
  return number < kTypes.size() ? kTypes.at(number) : TensorType{"unknown", {}};
}

struct Counts final {
  int64_t tensors = 0;
  int64_t keys = 0;
};

Counts read_start(GgufCursor& in) {
  if (in.number<uint32_t>() != kMagic) in.fail("is no GGUF file");
  const auto version = in.number<uint32_t>();
  if ((version & 0xffffu) == 0 && version != 0) {
    in.fail("is big-endian, which is not read", Errc::kUnsupported);
  } else if (version < kOldestVersion || version > kNewestVersion) {
    in.fail(fmt::format("is of GGUF's version {}; {} and {} are read", version, kOldestVersion, kNewestVersion),
            Errc::kUnsupported);
  }
  const auto tensors = in.number<uint64_t>();
  const auto keys = in.number<uint64_t>();
  if (tensors > static_cast<uint64_t>(limits::kMaxTensors)) {
    in.fail(fmt::format("has {} tensors, more than {}", tensors, limits::kMaxTensors));
  }
  if (keys > static_cast<uint64_t>(limits::kMaxGgufKeys)) {
    in.fail(fmt::format("has {} keys, more than {}", keys, limits::kMaxGgufKeys));
  }
  if (!in.ok()) return {};
  return {static_cast<int64_t>(tensors), static_cast<int64_t>(keys)};
}

GgufMetadata read_metadata(GgufCursor& in, int64_t keys) {
  GgufMetadata metadata;
  for (int64_t i = 0; i < keys && in.ok(); ++i) {
    in.about("metadata", fmt::format("entry {}", i));
    const std::string key = in.name(limits::kMaxGgufKeyBytes);
    if (!in.ok()) break;
    in.about("key", key);
    const GgufType type = in.type();
    GgufValue value = in.value(type);
    if (in.ok() && !metadata.emplace(key, std::move(value)).second) in.fail("stands twice");
  }
  in.about("", "");
  return metadata;
}

int64_t read_alignment(GgufCursor& in, const GgufMetadata& metadata) {
  const auto at = metadata.find(kAlignmentKey);
  if (at == metadata.end()) return kDefaultAlignment;
  const int64_t* alignment = std::get_if<int64_t>(&at->second);
  if (alignment != nullptr && *alignment >= 8 && *alignment <= limits::kMaxGgufAlignment &&
      (*alignment & (*alignment - 1)) == 0) {
    return *alignment;
  }
  in.about("key", kAlignmentKey);
  in.fail(fmt::format("is no power of two from 8 to {}", limits::kMaxGgufAlignment));
  return kDefaultAlignment;
}

/// The file has the innermost axis first, and may leave out outer ones of one.
Shape row_major(std::vector<int64_t> axes) {
  while (axes.size() > 1 && axes.back() == 1)
    axes.pop_back();
  return {axes.rbegin(), axes.rend()};
}

bool bytes_fit(const StoredTensor& tensor) {
  int64_t elements = stored_block(tensor.dtype).bytes;
  for (const int64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(elements, extent, &elements)) return false;
  }
  return true;
}

/// `offset` is left as the file has it: from the start of the data.
GgufTensor read_tensor(GgufCursor& in) {
  GgufTensor tensor;
  tensor.name = in.name(limits::kMaxTensorNameBytes);
  in.about("tensor", tensor.name);
  const auto axes = in.number<uint32_t>();
  if (axes > kMaxAxes) in.fail(fmt::format("has {} axes, more than {}", axes, kMaxAxes));
  std::vector<int64_t> extents;
  for (uint32_t i = 0; i < axes && in.ok(); ++i) {
    const auto extent = in.number<uint64_t>();
    if (!std::in_range<int64_t>(extent)) in.fail(fmt::format("has {} elements on an axis", extent));
    extents.push_back(static_cast<int64_t>(extent));
  }
  const auto number = in.number<uint32_t>();
  const auto offset = in.number<uint64_t>();
  if (!in.ok()) return tensor;
  const TensorType type = tensor_type(number);
  if (!type.dtype || !is_weight_dtype(*type.dtype)) {
    in.fail(fmt::format("is {} (type {}); {} are served", type.name, number, weight_dtype_names()), Errc::kUnsupported);
    return tensor;
  }
  const int64_t block = stored_block(*type.dtype).elements;
  tensor.stored = {*type.dtype, row_major(extents), static_cast<int64_t>(offset)};
  const int64_t row = extents.empty() ? 1 : extents.front();
  if (row % block != 0) in.fail(fmt::format("has rows of {} elements, which are no whole blocks of {}", row, block));
  if (!std::in_range<int64_t>(offset)) in.fail(fmt::format("begins at byte {}", offset));
  if (!bytes_fit(tensor.stored)) in.fail("has a size beyond 63 bits");
  return tensor;
}

std::vector<GgufTensor> read_tensors(GgufCursor& in, int64_t count) {
  std::vector<GgufTensor> tensors;
  std::set<std::string, std::less<>> names;
  for (int64_t i = 0; i < count && in.ok(); ++i) {
    in.about("tensor", fmt::format("number {}", i));
    GgufTensor tensor = read_tensor(in);
    if (in.ok() && !names.insert(tensor.name).second) in.fail("stands twice");
    if (in.ok()) tensors.push_back(std::move(tensor));
  }
  in.about("", "");
  return tensors;
}

/// Tensors are sorted by their data on the way, and their offsets are counted from the start of the file.
void check_layout(GgufCursor& in, std::vector<GgufTensor>& tensors, int64_t alignment, int64_t file_bytes) {
  const int64_t data_begin = round_up(in.at(), alignment);
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const GgufTensor& a, const GgufTensor& b) { return a.stored.offset < b.stored.offset; });
  int64_t end = data_begin;  // of the tensors so far
  for (GgufTensor& tensor : tensors) {
    in.about("tensor", tensor.name);
    const int64_t room = file_bytes - data_begin;
    const int64_t at = tensor.stored.offset;
    if (at > room || tensor.stored.bytes() > room - at) {
      in.fail(fmt::format("has {} bytes from byte {} of the data on, which are {}", tensor.stored.bytes(), at,
                          std::max<int64_t>(room, 0)));
      return;
    }
    const int64_t due = round_up(end, alignment) - data_begin;
    if (at != due) {
      in.fail(fmt::format("begins at byte {} of the data, {} byte {}", at,
                          at < due ? "inside another that ends at" : "after a gap from", due));
      return;
    }
    tensor.stored.offset += data_begin;
    end = tensor.stored.offset + tensor.stored.bytes();
  }
  in.about("", "");
  if (file_bytes > round_up(end, alignment)) {
    in.fail(fmt::format("{} bytes after the last tensor", file_bytes - end));
  }
}

Error not_of_kind(const InputFile& file, std::string_view key, std::string_view kind) {
  return {Errc::kCorrupt, fmt::format("{}: key '{}' is no array of {}", file.path(), key, kind), std::string(key)};
}

GgufCursor elements_of(const InputFile& file, std::string_view key, const GgufArray& array) {
  GgufCursor in(file, array.begin, file.bytes());
  in.about("key", key);
  return in;
}

/// Elements that are all of one kind of value; `kind` is what errors call it.
template <class T>
Result<std::vector<T>> read_elements(const InputFile& file, std::string_view key, const GgufArray& array,
                                     std::string_view kind) {
  GgufCursor in = elements_of(file, key, array);
  std::vector<T> elements;
  for (int64_t i = 0; i < array.count && in.ok(); ++i) {
    const GgufValue value = in.value(array.element, limits::kMaxGgufNesting);
    const T* element = std::get_if<T>(&value);
    if (element == nullptr && in.ok()) return not_of_kind(file, key, kind);
    if (in.ok()) elements.push_back(*element);
  }
  RETURN_IF_ERROR(in.status());
  return elements;
}

}  // namespace

Result<GgufHeader> read_gguf_header(const InputFile& file) {
  GgufCursor in(file, 0, std::min(file.bytes(), limits::kMaxGgufHeaderBytes));
  GgufHeader header;
  const Counts counts = read_start(in);
  header.metadata = read_metadata(in, counts.keys);
  const int64_t alignment = read_alignment(in, header.metadata);
  header.tensors = read_tensors(in, counts.tensors);
  if (in.ok()) check_layout(in, header.tensors, alignment, file.bytes());
  RETURN_IF_ERROR(in.status());
  return header;
}

Result<std::vector<std::string>> read_gguf_texts(const InputFile& file, std::string_view key, const GgufArray& array) {
  if (array.element != GgufType::kText) return not_of_kind(file, key, "texts");
  GgufCursor in = elements_of(file, key, array);
  std::vector<std::string> texts;
  for (int64_t i = 0; i < array.count && in.ok(); ++i)
    texts.push_back(in.text(limits::kMaxGgufTextBytes));
  RETURN_IF_ERROR(in.status());
  return texts;
}

Result<std::vector<int64_t>> read_gguf_integers(const InputFile& file, std::string_view key, const GgufArray& array) {
  return read_elements<int64_t>(file, key, array, "integers");
}

Result<std::vector<double>> read_gguf_numbers(const InputFile& file, std::string_view key, const GgufArray& array) {
  return read_elements<double>(file, key, array, "fractions");
}

}  // namespace krait
