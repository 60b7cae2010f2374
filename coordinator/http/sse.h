// Server-sent events: the frames of a streamed answer.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/http/headers.h"

namespace krait::http {

/// "data: ...\n\n" of one JSON text (or "[DONE]"). A line break inside would end the frame, so each line gets its own
/// "data: ", which a reader joins again.
std::string sse_event(std::string_view json);
/// ": ...\n\n", which readers skip: it keeps a connection alive while nothing else is to be said.
std::string sse_comment(std::string_view text = "keep-alive");
/// Content-Type and what keeps caches and proxies from holding events back.
Headers sse_headers();

}  // namespace krait::http
