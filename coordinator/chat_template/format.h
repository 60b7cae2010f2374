// Python's two ways to put values into a text: "%s" % value and "{}".format(value).
#pragma once

#include "coordinator/chat_template/run.h"

namespace krait::chat_template {

/// text % values: a tuple of values, a dict for %(name)s, or a single value.
Value format_percent(Run& run, const Text& text, const Value& values);

/// The methods str.format and str.format_map.
Value format_method(Run& run, const Value& self, const Arguments& arguments);
Value format_map_method(Run& run, const Value& self, const Arguments& arguments);

}  // namespace krait::chat_template
