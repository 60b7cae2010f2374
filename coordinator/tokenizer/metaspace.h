// What the pre-tokenizer and the decoder called Metaspace have in common.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/tokenizer/json_part.h"

namespace krait::tokenizer {

struct MetaspaceConfig final {
  enum class Prepend : uint8_t { kAlways, kFirst, kNever };

  std::string replacement;  // one character, stands for a space
  Prepend prepend = Prepend::kAlways;

  /// Older files say add_prefix_space where newer ones say prepend_scheme.
  static Result<MetaspaceConfig> read(const Json& part, const Where& where);
};

}  // namespace krait::tokenizer
