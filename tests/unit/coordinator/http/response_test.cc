#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "coordinator/http/error_body.h"
#include "coordinator/http/request_id.h"
#include "coordinator/http/response_head.h"
#include "coordinator/http/sse.h"

namespace krait::http {
namespace {

size_t lines_of(const std::string& head) {
  size_t lines = 0;
  for (const char c : head)
    lines += c == '\n' ? 1 : 0;
  return lines;
}

TEST(ResponseHead, FramesAndNamesTheRequest) {
  const std::string head = response_head(200, {{"Content-Type", "application/json"}},
                                         {.content_length = 12, .keep_alive = true, .request_id = "abc"});
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  EXPECT_NE(head.find("\r\nContent-Length: 12\r\n"), std::string::npos);
  EXPECT_NE(head.find("\r\nContent-Type: application/json\r\n"), std::string::npos);
  EXPECT_NE(head.find("\r\nx-request-id: abc\r\n"), std::string::npos);
  EXPECT_NE(head.find("\r\nDate: "), std::string::npos);
  EXPECT_EQ(head.find("Connection:"), std::string::npos);
  EXPECT_NE(response_head(200, {}, {.chunked = true}).find("\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"),
            std::string::npos);
  EXPECT_EQ(response_head(204, {}, {.content_length = 0}).find("Content-Length"), std::string::npos);
  EXPECT_TRUE(response_head(7, {}, {}).starts_with("HTTP/1.1 500 "));
}

TEST(ResponseHead, NothingInjectsALine) {
  const ResponseFraming framing{.content_length = 0, .keep_alive = true, .request_id = "r"};
  const size_t plain = lines_of(response_head(200, {}, framing));
  const std::string head =
      response_head(200,
                    {{"x-unknown-fields", std::string("a\r\nSet-Cookie: b\nc\rd\0e\x7f\xc3\xa9", 25)},
                     {"bad name", "v"},
                     {"bad\r\nname", "v"},
                     {"", "v"},
                     {"Content-Length", "99"},
                     {"transfer-ENCODING", "chunked"},
                     {"Connection", "upgrade"},
                     {"X-Request-ID", "other"}},
                    framing);
  EXPECT_EQ(lines_of(head), plain + 1);
  EXPECT_NE(head.find("x-unknown-fields: a??Set-Cookie: b?c?d?e???\r\n"), std::string::npos) << head;
  EXPECT_EQ(head.find("99"), std::string::npos);
  EXPECT_EQ(head.find("other"), std::string::npos);
}

TEST(ErrorBody, IsOpenAisObject) {
  const auto parsed = nlohmann::json::parse(error_body({Errc::kNotFound, "no \"model\"\n", "model"}));
  EXPECT_EQ(
      parsed,
      nlohmann::json(
          {{"error",
            {{"message", "no \"model\"\n"}, {"type", "not_found_error"}, {"param", "model"}, {"code", "not_found"}}}}));
  const auto other = nlohmann::json::parse(error_body({Errc::kInvalidArgument, "bad \xff byte", ""}));
  EXPECT_TRUE(other["error"]["param"].is_null());
  EXPECT_EQ(other["error"]["message"], "bad \xef\xbf\xbd byte");
}

TEST(Sse, FramesEvents) {
  EXPECT_EQ(sse_event("[DONE]"), "data: [DONE]\n\n");
  EXPECT_EQ(sse_event(""), "data: \n\n");
  EXPECT_EQ(sse_event("a\nb\r\nc\rd"), "data: a\ndata: b\ndata: c\ndata: d\n\n");
  EXPECT_EQ(sse_comment(), ": keep-alive\n\n");
  EXPECT_EQ(sse_comment("x\ny"), ": x\n: y\n\n");
  EXPECT_TRUE(sse_headers().find("content-type")->starts_with("text/event-stream"));
}

TEST(RequestId, EchoesOnlyWhatIsSafe) {
  EXPECT_EQ(request_id_from("Ab9._-"), "Ab9._-");
  EXPECT_EQ(request_id_from(std::string(128, 'a')), std::string(128, 'a'));
  for (const std::string& bad : {std::string(), std::string(129, 'a'), std::string("a b"), std::string("a\"b"),
                                 std::string("\xc3\xa9"), std::string("a\nb")}) {
    const std::string made = request_id_from(bad);
    EXPECT_NE(made, bad);
    EXPECT_TRUE(made.starts_with("req-"));
    EXPECT_TRUE(is_valid_request_id(made));
  }
  EXPECT_NE(request_id_from(std::nullopt), request_id_from(std::nullopt));
}

}  // namespace
}  // namespace krait::http
