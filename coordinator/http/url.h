// Percent-encoding in request targets.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace krait::http {

/// "%2F" becomes "/"; nothing where a '%' is not followed by two hexadecimal digits.
std::optional<std::string> percent_decode(std::string_view text);

}  // namespace krait::http
