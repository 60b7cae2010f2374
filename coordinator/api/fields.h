// Request fields as data: one table per endpoint says which there are, of what type and range, and which are refused.
// The parser reads it, and so can whatever describes the API.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_text.h"
#include "common/base/result.h"

namespace krait::api {

/// The least value of a field that must be above 0: it is still above 0 as a float.
inline constexpr double kLeastTopP = 0x1p-126;

enum class FieldType : uint8_t {
  kModel,  // a served model's name; check_model() looks whose
  kString,
  kBoolean,
  kInteger,          // within [least, most]; 5.0 is one too
  kNumber,           // within [least, most]
  kSeed,             // any integer of 64 bits, signed or not
  kStringOrStrings,  // at most `most` of them, of limits::kMaxStopStringCharacters each
  kTokenIds,         // at most `most`
  kPrompt,           // text, texts, token ids, lists of token ids
  kBias,             // {"token id": number in [least, most]}; ids as JSON writes integers
  kStreamOptions,    // an object of kStreamOptionFields
  kMessages,         // of `least` to `most` messages of a chat
  kArray,            // of `least` to `most` items
  kObject,
  kAny,  // not looked at
};

enum class FieldUse : uint8_t {
  kRequired,
  kUsed,
  kHarmless,  // known to clients, changes nothing here: accepted
  kRefused,   // would change the output and is not supported: an error, unless it has a value that changes nothing
};

struct FieldSpec final {
  std::string_view name;
  FieldUse use = FieldUse::kUsed;
  FieldType type = FieldType::kString;
  double least = 0;
  double most = 0;
  std::string_view values;  // as JSON: the default of kUsed, those of kRefused that change nothing (spaces between)
  std::string_view help;
};

/// Fields that nobody knows: accepted and without effect, but not in silence.
struct UnknownFields final {
  std::vector<std::string>
      names;         // the first limits::kMaxNamedUnknownFields in alphabetical order, each as shortened()
  size_t count = 0;  // of all

  void add(std::string_view name);
  void add(const UnknownFields& more);
  /// The names with commas between, in printable ASCII: a header's value. Empty when there are none.
  std::string header() const;
};

/// A body that fits its table. A field that is absent or null has the table's default; getters return nothing where the
/// table has none.
class Fields final {
 public:
  /// Checks every field. Errors: kInvalidArgument, param the field ("stop[2]" within arrays), with `prefix` in front.
  static Result<Fields> check(nlohmann::json body, std::span<const FieldSpec> table, std::string_view prefix = "");
  Fields(Fields&&) = default;
  Fields& operator=(Fields&&) = default;
  ~Fields() { release_json(body_); }

  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::optional<std::string> string(std::string_view name) const;
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<int64_t> integer(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  std::optional<uint64_t> seed(std::string_view name) const;
  std::vector<std::string> strings(std::string_view name) const;
  std::vector<int32_t> token_ids(std::string_view name) const;
  std::vector<std::pair<int32_t, float>> bias(std::string_view name) const;
  /// The value, or nullptr.
  const nlohmann::json* find(std::string_view name) const;

  /// Fields that the table does not have.
  const UnknownFields& unknown() const { return unknown_; }

 private:
  Fields() = default;

  nlohmann::json body_;
  UnknownFields unknown_;
};

/// Token ids below `end` from a JSON array. Error: kInvalidArgument, param "NAME[3]": the first that is none.
Result<std::vector<int32_t>> token_ids(const nlohmann::json& array, const std::string& name, int64_t end);

/// The integer that a JSON number is, if it is one and fits.
std::optional<int64_t> whole_number(const nlohmann::json& value);

}  // namespace krait::api
