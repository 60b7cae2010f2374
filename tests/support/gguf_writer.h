// GGUF files made by tests, sound ones and bad ones: whatever is given is written, in the order in which it is given.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/tensor/stored_tensor.h"
#include "common/weights/gguf_header.h"

namespace krait::test {

/// Little-endian bytes of a number.
template <class Number>
std::string gguf_bytes(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}
/// Length and bytes.
std::string gguf_text(std::string_view text);

struct GgufTensorToWrite final {
  std::string name;
  uint32_t type = 0;  // 0 F32, 1 F16, 2 Q4_0, 8 Q8_0, 14 Q6_K, 30 BF16
  Shape shape;        // row-major
  std::string bytes;
};

class GgufWriter final {
 public:
  GgufWriter& key(std::string_view name, GgufType type, std::string_view value);
  GgufWriter& integer(std::string_view name, uint32_t value) { return key(name, GgufType::kU32, gguf_bytes(value)); }
  GgufWriter& number(std::string_view name, float value) { return key(name, GgufType::kF32, gguf_bytes(value)); }
  GgufWriter& flag(std::string_view name, bool value) { return key(name, GgufType::kBool, gguf_bytes(value)); }
  GgufWriter& text(std::string_view name, std::string_view value) {
    return key(name, GgufType::kText, gguf_text(value));
  }
  GgufWriter& texts(std::string_view name, std::span<const std::string> values);
  GgufWriter& tensor(GgufTensorToWrite tensor);

  /// Tensors one after the other, each at a multiple of the alignment, which general.alignment does not say unless it
  /// was given as a key.
  std::string file(int64_t alignment = 32, uint32_t version = 3) const;

 private:
  uint64_t keys_ = 0;
  std::string metadata_;
  std::vector<GgufTensorToWrite> tensors_;
};

}  // namespace krait::test
