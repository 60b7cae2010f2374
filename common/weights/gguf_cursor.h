// Reads a GGUF file's header from front to back, a window at a time. Inside common/weights only.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/file.h"
#include "common/base/result.h"
#include "common/weights/gguf_header.h"

namespace krait {

/// The first fault is kept and later reads return zeros, so that fields can be read straight through; ask status()
/// before using what was read, and before each turn of a loop whose count the file gave.
class GgufCursor final {
 public:
  /// From byte `begin` on; what is read must end at `end`, which lies within the file.
  GgufCursor(const InputFile& file, int64_t begin, int64_t end) : file_(file), at_(begin), end_(end) {}

  int64_t at() const { return at_; }
  int64_t left() const { return end_ - at_; }
  bool ok() const { return !error_; }
  Status status() const;
  /// What errors are about from now on: "key 'x'", its name; empty: the file.
  void about(std::string_view what, std::string_view name);
  void fail(std::string_view what, Errc code = Errc::kCorrupt);

  template <class Number>
  Number number() {
    static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in the file");
    Number value{};
    take(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  /// A length and that many bytes.
  std::string text(int64_t max_bytes);
  /// A text that names something: printable ASCII, so that it can stand in messages.
  std::string name(int64_t max_bytes);
  void skip(int64_t bytes);

  GgufType type();
  /// Without its type. An array is walked through and left in the file.
  GgufValue value(GgufType type, int nesting = 0);

 private:
  void take(std::span<std::byte> out);
  GgufValue array(int nesting);

  const InputFile& file_;
  int64_t at_;
  int64_t end_;
  std::vector<std::byte> window_;
  int64_t window_begin_ = 0;
  std::string what_;
  std::string name_;
  std::optional<Error> error_;
};

/// Bytes of a value of a type whose values have all one size; 0 of the others.
int64_t gguf_type_bytes(GgufType type);

}  // namespace krait
