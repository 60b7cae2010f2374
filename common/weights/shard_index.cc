#include "common/weights/shard_index.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/base/limits.h"

namespace krait {
namespace {

using nlohmann::json;
using WeightMap = std::map<std::string, std::string, std::less<>>;

bool is_plain_file_name(std::string_view name) {
  return !name.starts_with('.') && name.ends_with(".safetensors") && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

/// Keeps the strings of the top-level object "weight_map" and steps over everything else ("metadata" has totals).
class IndexHandler final : public nlohmann::json_sax<json> {
 public:
  explicit IndexHandler(std::string_view path) : path_(path) {}

  bool found() const { return found_; }
  WeightMap take_map() { return std::move(map_); }
  Error error() const { return error_.value_or(Error{Errc::kCorrupt, path_ + ": not JSON", path_}); }

  bool start_object(size_t) override {
    if (depth_ == 1 && key_ == "weight_map") {
      if (found_) return fail("weight_map occurs twice", path_);
      in_map_ = found_ = true;
      return deeper();
    }
    return in_map_ ? misplaced() : deeper();
  }
  bool end_object() override {
    if (depth_ == 2) in_map_ = false;
    --depth_;
    return true;
  }
  bool key(string_t& key) override {
    if (depth_ <= 2) key_ = key.substr(0, limits::kMaxTensorNameBytes);
    return true;
  }
  bool string(string_t& value) override {
    if (!in_map_) return true;
    if (!is_plain_file_name(value)) return fail(fmt::format("'{:.256}' is not a plain file name", value), key_);
    if (!map_.emplace(key_, value).second) return fail(fmt::format("tensor '{:.256}' occurs twice", key_), key_);
    return true;
  }
  bool start_array(size_t) override { return in_map_ ? misplaced() : deeper(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(number_integer_t) override { return scalar(); }
  bool number_unsigned(number_unsigned_t) override { return scalar(); }
  bool number_float(number_float_t, const string_t&) override { return scalar(); }
  bool binary(binary_t&) override { return scalar(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(fmt::format("not JSON at byte {}", position), path_);
  }

 private:
  bool deeper() {
    return ++depth_ <= limits::kMaxJsonDepth ||
           fail(fmt::format("nested deeper than {}", limits::kMaxJsonDepth), path_);
  }
  bool scalar() { return in_map_ ? misplaced() : true; }
  bool misplaced() { return fail(fmt::format("tensor '{:.256}' has no file name", key_), key_); }
  bool fail(std::string_view what, const std::string& param) {
    error_ = Error{Errc::kCorrupt, fmt::format("{}: {}", path_, what), param};
    return false;
  }

  std::string path_;
  int depth_ = 0;
  bool in_map_ = false;
  bool found_ = false;
  std::string key_;
  WeightMap map_;
  std::optional<Error> error_;
};

}  // namespace

Result<WeightMap> parse_shard_index(std::string_view text, std::string_view path) {
  if (text.find('\0') != std::string_view::npos) {  // the library takes it for the end of the text
    return Error{Errc::kCorrupt, fmt::format("{}: there is a NUL byte in it", path), std::string(path)};
  }
  try {
    IndexHandler handler(path);
    if (!json::sax_parse(text, &handler)) return handler.error();
    if (!handler.found()) return Error{Errc::kCorrupt, fmt::format("{}: no weight_map", path), std::string(path)};
    return handler.take_map();
  } catch (const std::exception& error) {
    return Error{Errc::kCorrupt, fmt::format("{}: {}", path, error.what()), std::string(path)};
  }
}

}  // namespace krait
