// "normalizer": what is done to the text before it is cut up.
#pragma once

#include <memory>
#include <string>

#include "coordinator/tokenizer/json_part.h"
#include "coordinator/tokenizer/regex.h"

namespace krait::tokenizer {

class Normalizer {
 public:
  virtual ~Normalizer() = default;

  /// Changes `text`, which is and stays valid UTF-8.
  virtual Status apply(std::string& text, RegexScratch& scratch) const = 0;
};

/// The normalizer that `json` describes, by the table in normalizers.cc.
Result<std::unique_ptr<Normalizer>> make_normalizer(const Json& json, const Where& where);

}  // namespace krait::tokenizer
