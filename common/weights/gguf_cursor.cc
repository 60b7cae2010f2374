#include "common/weights/gguf_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/limits.h"
#include "common/base/units.h"

namespace krait {
namespace {

constexpr int64_t kWindowBytes = 256 * kKiB;

}  // namespace

int64_t gguf_type_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kText:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

Status GgufCursor::status() const {
  if (error_) return *error_;
  return {};
}

void GgufCursor::about(std::string_view what, std::string_view name) {
  what_ = what;
  name_ = name;
}

void GgufCursor::fail(std::string_view what, Errc code) {
  if (error_) return;
  error_ = name_.empty() ? Error{code, fmt::format("{}: {}", file_.path(), what), file_.path()}
                         : Error{code, fmt::format("{}: {} '{}' {}", file_.path(), what_, name_, what), name_};
}

void GgufCursor::take(std::span<std::byte> out) {
  const auto bytes = static_cast<int64_t>(out.size());
  if (!ok() || bytes == 0) return;
  if (bytes > left()) return fail(fmt::format("ends at byte {}, {} bytes before its end", end_, bytes - left()));
  const auto window_bytes = static_cast<int64_t>(window_.size());
  if (at_ < window_begin_ || at_ + bytes > window_begin_ + window_bytes) {
    window_.resize(static_cast<size_t>(std::min(std::max(bytes, kWindowBytes), left())));
    window_begin_ = at_;
    if (Status read = file_.read(at_, window_); !read.ok()) {
      error_ = read.error();
      window_.clear();
      return;
    }
  }
  std::memcpy(out.data(), window_.data() + (at_ - window_begin_), out.size());
  at_ += bytes;
}

std::string GgufCursor::text(int64_t max_bytes) {
  const auto bytes = number<uint64_t>();
  if (!ok()) return {};
  if (bytes > static_cast<uint64_t>(std::min(max_bytes, left()))) {
    fail(fmt::format("has a text of {} bytes, where {} are left and at most {} are read", bytes, left(), max_bytes));
    return {};
  }
  std::string out(bytes, '\0');
  take(std::as_writable_bytes(std::span(out)));
  return out;
}

std::string GgufCursor::name(int64_t max_bytes) {
  std::string out = text(max_bytes);
  if (out.empty() || std::any_of(out.begin(), out.end(), [](char c) { return c < 0x21 || c > 0x7e; })) {
    fail("has a name that is no printable ASCII");
  }
  return out;
}

void GgufCursor::skip(int64_t bytes) {
  if (!ok()) return;
  if (bytes > left()) return fail(fmt::format("ends at byte {}, {} bytes before its end", end_, bytes - left()));
  at_ += bytes;
}

GgufType GgufCursor::type() {
  const auto number_of_type = number<uint32_t>();
  if (ok() && number_of_type > static_cast<uint32_t>(GgufType::kF64)) {
    fail(fmt::format("has the unknown type {}", number_of_type));
    return GgufType::kU8;
  }
  return static_cast<GgufType>(number_of_type);
}

GgufValue GgufCursor::value(GgufType type, int nesting) {
  switch (type) {
    case GgufType::kU8:
      return int64_t{number<uint8_t>()};
    case GgufType::kI8:
      return int64_t{number<int8_t>()};
    case GgufType::kU16:
      return int64_t{number<uint16_t>()};
    case GgufType::kI16:
      return int64_t{number<int16_t>()};
    case GgufType::kU32:
      return int64_t{number<uint32_t>()};
    case GgufType::kI32:
      return int64_t{number<int32_t>()};
    case GgufType::kF32:
      return double{number<float>()};
    case GgufType::kBool: {
      const auto byte = number<uint8_t>();
      if (byte > 1) fail(fmt::format("has the byte {}, which is neither true nor false", byte));
      return byte == 1;
    }
    case GgufType::kText:
      return text(limits::kMaxGgufTextBytes);
    case GgufType::kArray:
      return array(nesting);
    case GgufType::kU64: {
      const auto wide = number<uint64_t>();
      if (std::in_range<int64_t>(wide)) return static_cast<int64_t>(wide);
      return wide;
    }
    case GgufType::kI64:
      return number<int64_t>();
    case GgufType::kF64:
      return number<double>();
  }
  return int64_t{0};
}

GgufValue GgufCursor::array(int nesting) {
  const GgufType element = type();
  const auto count = number<uint64_t>();
  if (!ok()) return int64_t{0};
  if (nesting >= limits::kMaxGgufNesting) {
    fail(fmt::format("has more than {} arrays inside each other", limits::kMaxGgufNesting));
    return int64_t{0};
  }
  // The least that an element takes: a text's length, or an array's type and length.
  const int64_t each = gguf_type_bytes(element);
  const int64_t least = each > 0 ? each : element == GgufType::kText ? 8 : 12;
  if (count > static_cast<uint64_t>(left() / least)) {
    fail(fmt::format("has an array of {} elements, where {} bytes are left", count, left()));
    return int64_t{0};
  }
  const GgufArray found{element, static_cast<int64_t>(count), at_};
  if (each > 0) {
    skip(found.count * each);
    return found;
  }
  for (int64_t i = 0; i < found.count && ok(); ++i) {
    if (element == GgufType::kText) {
      const auto bytes = number<uint64_t>();
      if (bytes > static_cast<uint64_t>(left()))
        fail(fmt::format("has a text of {} bytes, where {} are left", bytes, left()));
      if (ok()) skip(static_cast<int64_t>(bytes));
    } else {
      value(element, nesting + 1);
    }
  }
  return found;
}

}  // namespace krait
