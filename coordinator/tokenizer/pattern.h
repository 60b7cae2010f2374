// What Split and Replace look for: {"String": ...} or {"Regex": ...}.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/tokenizer/json_part.h"
#include "coordinator/tokenizer/regex.h"

namespace krait::tokenizer {

/// A stretch of a text, in bytes, and whether it is a match or what lies between two.
struct Stretch final {
  size_t begin = 0;
  size_t end = 0;
  bool match = false;
};

class Pattern final {
 public:
  /// Reads the field "pattern" of `part`.
  static Result<Pattern> read(const Json& part, const Where& where);

  /// Covers `text` with matches (empty ones too) and what lies between them, in order. Appends to `out`.
  Status cover(std::string_view text, RegexScratch& scratch, std::vector<Stretch>& out) const;

  /// `text` with every match replaced. kTooLarge beyond limits::kMaxNormalizedBytes.
  Result<std::string> replace(std::string_view text, std::string_view with, RegexScratch& scratch) const;

 private:
  std::string literal_;  // when there is no regex_
  std::optional<Regex> regex_;
};

}  // namespace krait::tokenizer
