// The functions cycler and joiner: what they give remembers how often it was asked.
#pragma once

#include "coordinator/chat_template/function.h"

namespace krait::chat_template {

struct Cycler final : Object {
  std::vector<Value> items;  // at least one
  size_t at = 0;

  const Value& current() const { return items[at]; }
};

Value make_cycler(Run& run, const Arguments& arguments);
Value make_joiner(Run& run, const Arguments& arguments);

}  // namespace krait::chat_template
