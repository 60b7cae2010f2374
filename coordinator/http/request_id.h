// The name of a request in answers and logs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace krait::http {

/// True for 1 to kMaxRequestIdBytes characters of [A-Za-z0-9._-]: what can be echoed and logged without quoting.
bool is_valid_request_id(std::string_view id);

/// The client's id when it is valid, else "req-" and 32 random hexadecimal digits.
std::string request_id_from(std::optional<std::string_view> client_id);

}  // namespace krait::http
