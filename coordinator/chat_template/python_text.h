// Values as text, as Python's str() and repr() spell them.
#pragma once

#include <string>

#include "coordinator/chat_template/value.h"

namespace krait::chat_template {

std::string float_repr(double value);

/// str(): a text as it is, nothing for undefined. Refuses what Python shows by its address.
void append_str(TextBuilder& out, const Value& value);
void append_repr(TextBuilder& out, const Value& value);

/// str() as a text value; a text is returned as it is.
Value to_text(Budget& budget, const Value& value);

}  // namespace krait::chat_template
