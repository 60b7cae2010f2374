// "pre_tokenizer": how the text is cut into the words that the model sees.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/tokenizer/json_part.h"
#include "coordinator/tokenizer/regex.h"

namespace krait::tokenizer {

/// A text and the pieces it is cut into: in order, none empty, not overlapping. A part may cut pieces, drop some, and
/// write the text anew.
struct Pieces final {
  struct Span final {
    size_t begin = 0;
    size_t end = 0;
  };

  std::string text;
  std::vector<Span> spans;
  bool at_start = false;  // the text begins where the whole input began (no added token stood before it)

  std::string_view view(const Span& span) const {
    return std::string_view(text).substr(span.begin, span.end - span.begin);
  }
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  virtual Status apply(Pieces& pieces, RegexScratch& scratch) const = 0;
};

/// The pre-tokenizer that `json` describes, by the table in pre_tokenizers.cc.
Result<std::unique_ptr<PreTokenizer>> make_pre_tokenizer(const Json& json, const Where& where);

}  // namespace krait::tokenizer
