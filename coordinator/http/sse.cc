#include "coordinator/http/sse.h"

namespace krait::http {
namespace {

// One "prefix text\n" for each line of `text`; CR, LF and CR LF all end a line of an event stream.
std::string frame(std::string_view prefix, std::string_view text) {
  std::string out;
  out.reserve(prefix.size() + text.size() + 2);
  for (;;) {
    const size_t line = text.find_first_of("\r\n");
    out.append(prefix).append(text.substr(0, line)).push_back('\n');
    if (line == std::string_view::npos) break;
    text.remove_prefix(line + (text.substr(line, 2) == "\r\n" ? 2 : 1));
  }
  out.push_back('\n');
  return out;
}

}  // namespace

std::string sse_event(std::string_view json) {
  return frame("data: ", json);
}

std::string sse_comment(std::string_view text) {
  return frame(": ", text);
}

Headers sse_headers() {
  return {
      {"Content-Type", "text/event-stream; charset=utf-8"}, {"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
}

}  // namespace krait::http
