#include "common/weights/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/limits.h"

namespace krait {
namespace {

using nlohmann::json;

/// Takes the parser's events by the grammar of the format and stops at the first that does not belong:
/// { "__metadata__": {string: string}, NAME: {"dtype": string, "shape": [n...], "data_offsets": [begin, end]} }.
class HeaderHandler final : public nlohmann::json_sax<json> {
 public:
  explicit HeaderHandler(std::string_view path) : path_(path) {}

  std::vector<SafetensorsEntry> take_entries() { return std::move(entries_); }
  Error error() const { return error_.value_or(Error{Errc::kCorrupt, path_ + ": header is not JSON", path_}); }

  bool start_object(size_t) override {
    if (level_ == Level::kOutside) return go(Level::kNames);
    if (level_ != Level::kNames) return unexpected("an object");
    if (name_ == "__metadata__") return go(Level::kMetadata);
    entry_ = {};
    has_dtype_ = has_shape_ = has_offsets_ = false;
    return go(Level::kTensor);
  }

  bool key(string_t& key) override {
    switch (level_) {
      case Level::kNames:
        name_ = key;
        if (static_cast<int64_t>(key.size()) > limits::kMaxTensorNameBytes) return fail("has too long a name");
        if (!names_.insert(key).second) return fail("occurs twice");
        if (static_cast<int64_t>(names_.size()) > limits::kMaxTensors) return fail("is one tensor too many");
        return true;
      case Level::kTensor:
        field_ = key;
        return true;
      default:
        return true;
    }
  }

  bool end_object() override {
    if (level_ == Level::kMetadata) return go(Level::kNames);
    if (level_ == Level::kNames) return go(Level::kOutside);
    if (!has_dtype_ || !has_shape_ || !has_offsets_) return fail("lacks dtype, shape or data_offsets");
    entry_.name = name_;
    entries_.push_back(std::move(entry_));
    return go(Level::kNames);
  }

  bool start_array(size_t) override {
    if (level_ != Level::kTensor) return unexpected("an array");
    numbers_.clear();
    return go(Level::kNumbers);
  }

  bool end_array() override {
    level_ = Level::kTensor;
    if (field_ == "shape" && !has_shape_) {
      has_shape_ = true;
      entry_.shape = numbers_;
      return true;
    }
    if (field_ == "data_offsets" && !has_offsets_ && numbers_.size() == 2) {
      has_offsets_ = true;
      entry_.begin = numbers_[0];
      entry_.end = numbers_[1];
      return true;
    }
    return fail(fmt::format("has a strange '{}'", field_));
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (level_ != Level::kNumbers) return unexpected("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return fail("has a number beyond 63 bits");
    if (static_cast<int64_t>(numbers_.size()) >= limits::kMaxTensorAxes) return fail("has too many axes");
    numbers_.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (level_ == Level::kMetadata) return true;
    if (level_ != Level::kTensor || field_ != "dtype" || has_dtype_) return unexpected("a string");
    const std::optional<DType> dtype = dtype_from_safetensors(value);
    if (!dtype) return fail(fmt::format("has the unknown dtype '{:.32}'", value), Errc::kUnsupported);
    has_dtype_ = true;
    entry_.dtype = *dtype;
    return true;
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a fraction"); }
  bool binary(binary_t&) override { return unexpected("bytes"); }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    error_ = Error{Errc::kCorrupt, fmt::format("{}: header is not JSON at byte {}", path_, position), path_};
    return false;
  }

 private:
  enum class Level : uint8_t { kOutside, kNames, kMetadata, kTensor, kNumbers };

  bool go(Level level) {
    level_ = level;
    return true;
  }
  bool fail(std::string_view what, Errc code = Errc::kCorrupt) {
    name_.resize(std::min(name_.size(), static_cast<size_t>(limits::kMaxTensorNameBytes)));
    error_ = Error{code, fmt::format("{}: tensor '{}' {}", path_, name_, what), name_};
    return false;
  }
  bool unexpected(std::string_view what) {
    if (level_ == Level::kTensor || level_ == Level::kNumbers || level_ == Level::kNames) {
      return fail(fmt::format("has {} where none belongs", what));
    }
    error_ = Error{Errc::kCorrupt, fmt::format("{}: header has {} where none belongs", path_, what), path_};
    return false;
  }

  std::string path_;
  Level level_ = Level::kOutside;
  std::set<std::string> names_;
  std::string name_;
  std::string field_;
  Shape numbers_;
  SafetensorsEntry entry_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  std::vector<SafetensorsEntry> entries_;
  std::optional<Error> error_;
};

/// Nothing where the bytes do not fit 63 bits.
std::optional<int64_t> bytes_of(const Shape& shape, DType dtype) {
  int64_t bytes = dtype_bytes(dtype);
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return bytes;
}

/// Entries must be sorted by their data.
Status check_layout(const std::vector<SafetensorsEntry>& entries, int64_t data_bytes, std::string_view path) {
  int64_t at = 0;
  for (const SafetensorsEntry& entry : entries) {
    const auto bad = [&](std::string_view what) {
      return Error{Errc::kCorrupt, fmt::format("{}: tensor '{}' {}", path, entry.name, what), entry.name};
    };
    if (entry.begin > entry.end || entry.end > data_bytes) {
      return bad(fmt::format("is at bytes {}..{} of {}", entry.begin, entry.end, data_bytes));
    }
    const std::optional<int64_t> bytes = bytes_of(entry.shape, entry.dtype);
    if (!bytes || *bytes != entry.end - entry.begin) {
      return bad(fmt::format("has {} bytes, which its shape and dtype do not make", entry.end - entry.begin));
    }
    if (entry.begin < at) return bad(fmt::format("begins at byte {}, inside another", entry.begin));
    if (entry.begin > at) return bad(fmt::format("begins at byte {}, after a gap from {}", entry.begin, at));
    at = entry.end;
  }
  if (at != data_bytes) {
    return Error{Errc::kCorrupt, fmt::format("{}: {} bytes after the last tensor", path, data_bytes - at),
                 std::string(path)};
  }
  return {};
}

}  // namespace

Result<std::vector<SafetensorsEntry>> parse_safetensors_header(std::string_view text, int64_t data_bytes,
                                                               std::string_view path) {
  if (text.find('\0') != std::string_view::npos) {  // the library takes it for the end of the text
    return Error{Errc::kCorrupt, fmt::format("{}: header has a NUL byte", path), std::string(path)};
  }
  try {
    HeaderHandler handler(path);
    if (!json::sax_parse(text, &handler)) return handler.error();
    std::vector<SafetensorsEntry> entries = handler.take_entries();
    std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    RETURN_IF_ERROR(check_layout(entries, data_bytes, path));
    return entries;
  } catch (const std::exception& error) {
    return Error{Errc::kCorrupt, fmt::format("{}: header: {}", path, error.what()), std::string(path)};
  }
}

}  // namespace krait
