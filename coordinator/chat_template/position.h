// A place in a template, for errors.
#pragma once

#include <cstdint>

namespace krait::chat_template {

struct Position final {
  uint32_t line = 1;
  uint32_t column = 1;  // in characters
};

}  // namespace krait::chat_template
