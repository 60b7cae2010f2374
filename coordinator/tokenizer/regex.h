// Regular expressions of tokenizer.json, which are written for Oniguruma, on PCRE2. The one place that knows PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace krait::tokenizer {

/// What matching needs to write to. One for each thread that matches at the same time.
class RegexScratch final {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

  /// From now on the matches are those of a text of so many bytes on this thread, and have its time (limits::kRegexNs
  /// and more). Without it they may take any time.
  void begin_text(size_t bytes);

 private:
  friend class Regex;
  struct Data;
  std::unique_ptr<Data> data_;
};

/// A compiled expression; any number of threads may match it, each with a scratch of its own. `\s` is White_Space and
/// `^` and `$` match at lines, as in Oniguruma's Ruby syntax.
class Regex final {
 public:
  struct Match final {
    bool found = false;
    size_t begin = 0;
    size_t end = 0;
  };

  /// `where` names the part of the file in the error: kUnsupported where PCRE2 cannot compile the expression, or cannot
  /// even match it on an empty text.
  static Result<Regex> compile(std::string_view pattern, std::string_view where);

  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  /// The first match in the valid UTF-8 `text` at or after byte `from`, which is between characters.
  /// kInvalidArgument where it takes more than limits::kMaxRegexSteps, or the text's time is up: the text is to blame.
  Result<Match> find(std::string_view text, size_t from, RegexScratch& scratch) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);

  std::unique_ptr<Code> code_;
};

}  // namespace krait::tokenizer
