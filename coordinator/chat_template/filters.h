// The tables of filters, by what they work on.
#pragma once

#include "coordinator/chat_template/function.h"

namespace krait::chat_template {

std::span<const MethodRow> text_filters();
std::span<const MethodRow> sequence_filters();
std::span<const MethodRow> choosing_filters();

/// Whether jinja2 has a filter of that name, supported here or not.
bool is_filter_name(std::string_view name);

}  // namespace krait::chat_template
