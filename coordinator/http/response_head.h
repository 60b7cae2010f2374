// The status line and headers of a response as bytes. Nothing a handler passes can break the framing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/http/headers.h"

namespace krait::http {

struct ResponseFraming final {
  bool chunked = false;
  std::optional<int64_t> content_length;  // without it and without chunks, the body ends with the connection
  bool keep_alive = false;
  bool http_1_0 = false;  // of the request: such a client must be told when the connection stays
  std::string_view request_id;
};

/// A status outside 200..599 becomes 500.
std::string response_head(int status, const Headers& headers, const ResponseFraming& framing);
/// 204 and 304 never carry a body, nor its length.
bool has_body(int status);

}  // namespace krait::http
