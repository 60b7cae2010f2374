// The tables of filters, by what they work on.
#pragma once

#include "coordinator/chat_template/function.h"

namespace krait::chat_template {

std::span<const MethodRow> text_filters();
std::span<const MethodRow> sequence_filters();
std::span<const MethodRow> choosing_filters();

}  // namespace krait::chat_template
