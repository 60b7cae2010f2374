// What stands before the tensors of a GGUF file: its metadata and where each tensor lies. Nothing of it is believed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/file.h"
#include "common/base/result.h"
#include "common/tensor/stored_tensor.h"

namespace krait {

/// The types of values, by their numbers in the file.
enum class GgufType : uint8_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kArray,
  kU64,
  kI64,
  kF64,
};

/// An array stays in the file: only where it lies is kept. Whoever opened the file has walked through all of it.
struct GgufArray final {
  GgufType element = GgufType::kU8;
  int64_t count = 0;
  int64_t begin = 0;  // of its first element, from the start of the file
};

/// Integers of every width are int64_t, but those beyond it are uint64_t; fractions of both widths are double.
using GgufValue = std::variant<int64_t, uint64_t, double, bool, std::string, GgufArray>;
using GgufMetadata = std::map<std::string, GgufValue, std::less<>>;

struct GgufTensor final {
  std::string name;
  StoredTensor stored;  // shape row-major, without leading axes of one; offset from the start of the file
};

struct GgufHeader final {
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // in the order of their data
};

/// Reads versions 2 and 3, little-endian. Every length and count lies within the file and the limits, names are unique,
/// tensors are of a type of weights and lie one after the other in whole blocks, each at the next multiple of the
/// alignment, up to the end of the file. Errors: kCorrupt, kUnsupported (a version or a type of tensors, by its name)
/// and kIo; they name the file and what is wrong in it, `param` is the key, the tensor, or the path.
Result<GgufHeader> read_gguf_header(const InputFile& file);

/// The elements of an array of the header of that file. Errors: kCorrupt, param `key`, where its elements are of
/// another kind, and as InputFile::read where the file has changed meanwhile.
Result<std::vector<std::string>> read_gguf_texts(const InputFile& file, std::string_view key, const GgufArray& array);
Result<std::vector<int64_t>> read_gguf_integers(const InputFile& file, std::string_view key, const GgufArray& array);
Result<std::vector<double>> read_gguf_numbers(const InputFile& file, std::string_view key, const GgufArray& array);

}  // namespace krait
