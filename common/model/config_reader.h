// Typed, bounded reading of one config object. Inside common/model only.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace krait {

/// Every read marks its field as known. The first fault is kept and later reads still return something harmless, so
/// that an architecture reads straight through; ask status() before using what was read. A null counts as absent.
class ConfigReader final {
 public:
  /// `object` must outlive the reader; `file` stands in messages.
  ConfigReader(const nlohmann::json& object, std::string_view file) : object_(object), file_(file) {}

  /// Within [low, high]. Absent: `fallback`, or a fault where there is none.
  int64_t integer(std::string_view field, int64_t low, int64_t high, std::optional<int64_t> fallback = std::nullopt);
  /// A finite number within [low, high].
  double number(std::string_view field, double low, double high, std::optional<double> fallback = std::nullopt);
  /// [low, high] with 0 <= low <= high; each may be infinite: Infinity, or {"__float__": "Infinity"}.
  std::pair<double, double> interval(std::string_view field, std::pair<double, double> fallback);
  bool boolean(std::string_view field, bool fallback);
  /// The spelling of a field that this config uses: the first of `fields` that is present, else the first.
  std::string_view spelling(std::initializer_list<std::string_view> fields) const;
  std::string word(std::string_view field, std::string_view fallback);
  bool is_word(std::string_view field, std::string_view value);

  /// Values that the code cannot do without: a present field must equal (one of) these, else kUnsupported.
  void must_be(std::string_view field, bool value);
  void must_be_word(std::string_view field, std::span<const std::string_view> values);
  void must_be_empty(std::string_view field);
  /// A second spelling of a size must agree with the first where it is present, else kCorrupt.
  void must_agree(std::string_view field, int64_t value, std::string_view other);

  /// Fields that change nothing here.
  void harmless(std::span<const std::string_view> fields);

  /// The value, marked as known; nullptr where absent or null.
  const nlohmann::json* get(std::string_view field);
  void fail(Errc code, std::string_view field, std::string_view what);

  /// A fault of the object that a field holds is the field's. The inner reader's `file` says where it stands.
  void take_fault(std::string_view field, const ConfigReader& inner);

  Status status() const;
  std::vector<std::string> unknown_fields() const;

 private:
  const nlohmann::json& object_;
  std::string file_;
  std::set<std::string, std::less<>> known_;
  std::optional<Error> error_;
};

}  // namespace krait
