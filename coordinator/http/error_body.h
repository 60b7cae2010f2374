// OpenAI's error object.
#pragma once

#include <string>

#include "common/base/result.h"

namespace krait::http {

/// {"error":{"message":...,"type":...,"param":...,"code":...}}: type and code (the label) from errors.def, param null
/// when the error names none. Bytes that are not UTF-8 become U+FFFD.
std::string error_body(const Error& error);

}  // namespace krait::http
