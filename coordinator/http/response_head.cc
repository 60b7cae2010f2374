#include "coordinator/http/response_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>

namespace krait::http {
namespace {

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

bool is_token(std::string_view name) {
  static constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

// Fields that the server answers for alone: two lengths or two framings would let a proxy see another message than we.
bool is_server_field(std::string_view name) {
  static constexpr std::array<std::string_view, 8> kOurs = {
      "content-length", "transfer-encoding", "connection", "keep-alive", "date", "x-request-id", "trailer", "upgrade"};
  return std::any_of(kOurs.begin(), kOurs.end(), [&](std::string_view ours) { return names_equal(name, ours); });
}

void append_value(std::string& out, std::string_view value) {
  for (const char c : value)
    out.push_back((c >= 0x20 && c < 0x7f) || c == '\t' ? c : '?');
}

// IMF-fixdate. Formatted once a second and thread; strftime would follow the locale.
const std::string& date_now() {
  static constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  thread_local time_t shown = 0;
  thread_local std::string text;
  const time_t now = time(nullptr);
  if (now != shown || text.empty()) {
    tm utc{};
    gmtime_r(&now, &utc);
    text =
        fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[static_cast<size_t>(utc.tm_wday)], utc.tm_mday,
                    kMonths[static_cast<size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
    shown = now;
  }
  return text;
}

}  // namespace

bool has_body(int status) {
  return status != 204 && status != 304;
}

std::string response_head(int status, const Headers& headers, const ResponseFraming& framing) {
  if (status < 200 || status > 599) status = 500;
  std::string out;
  out.reserve(512);
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\nDate: {}\r\nx-request-id: ", status, reason_of(status),
                 date_now());
  append_value(out, framing.request_id);
  out += "\r\n";
  for (const auto& [name, value] : headers) {
    if (!is_token(name) || is_server_field(name)) continue;
    out.append(name).append(": ");
    append_value(out, value);
    out += "\r\n";
  }
  if (framing.chunked) {
    out += "Transfer-Encoding: chunked\r\n";
  } else if (framing.content_length && has_body(status)) {
    fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", *framing.content_length);
  }
  if (!framing.keep_alive) {
    out += "Connection: close\r\n";
  } else if (framing.http_1_0) {
    out += "Connection: keep-alive\r\n";
  }
  out += "\r\n";
  return out;
}

}  // namespace krait::http
