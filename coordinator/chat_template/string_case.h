// Methods of Python's str about case, kind and width.
#pragma once

#include "coordinator/chat_template/function.h"

namespace krait::chat_template {

std::span<const MethodRow> string_case_methods();
bool text_is_upper(const Text& text);
bool text_is_lower(const Text& text);

}  // namespace krait::chat_template
