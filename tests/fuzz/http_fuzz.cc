// A connection's bytes: four bytes of limits, then how many pieces and how long each, then what the client sends.
// However it is cut, the same requests come out.
#include "coordinator/http/request_reader.h"
#include "tests/fuzz/harness.h"

namespace krait::http {
namespace {

using State = RequestReader::State;

struct Outcome final {
  std::vector<Request> requests;
  bool failed = false;
  bool unfinished = false;  // a request has begun
};

/// Feeds `bytes` as a connection does, with what was not used in front: pieces of `sizes` in turn, one piece when there
/// are none.
Outcome read(std::string_view bytes, const ReaderLimits& limits, const std::vector<size_t>& sizes) {
  Outcome outcome;
  RequestReader reader(limits);
  std::string held;
  size_t next = 0;
  while (true) {
    const size_t used = reader.feed(held);
    CHECK_LE(used, held.size());
    held.erase(0, used);
    CHECK_LE(reader.body_bytes(), limits.max_body_bytes);
    if (reader.state() == State::kComplete) {
      reader.take_continue();
      outcome.requests.push_back(reader.take());
      CHECK(reader.state() == State::kStart);
      continue;
    }
    if (reader.state() == State::kFailed) {
      CHECK(reader.failure().status >= 400 && reader.failure().status < 600);
      fuzz::check_error_text(reader.failure().error.message, reader.failure().error.param);
      outcome.failed = true;
      break;
    }
    // What the reader leaves is held by the connection until more comes: it must stay small.
    CHECK_LE(static_cast<int64_t>(held.size()), limits.max_header_bytes);
    if (bytes.empty()) break;
    const std::string_view piece = bytes.substr(0, sizes.empty() ? bytes.size() : sizes[next++ % sizes.size()]);
    held += piece;
    bytes.remove_prefix(piece.size());
  }
  outcome.unfinished = reader.state() == State::kHeader || reader.state() == State::kBody;
  return outcome;
}

bool same(const Request& a, const Request& b) {
  return a.method == b.method && a.target == b.target && a.path == b.path && a.query == b.query && a.body == b.body &&
         a.headers.size() == b.headers.size();
}

}  // namespace

KRAIT_FUZZ(http, input) {
  fuzz::Source source(input);
  ReaderLimits limits;
  limits.max_header_bytes = 64 + 4 * int64_t{source.byte()};
  limits.max_headers = 1 + source.byte() % 16;
  limits.max_body_bytes = 16 * int64_t{source.byte()};
  std::vector<size_t> sizes(source.byte() % 8);
  for (size_t& size : sizes)
    size = 1 + source.byte();
  const std::string_view bytes = fuzz::text(source.rest());
  const Outcome whole = read(bytes, limits, {});
  const Outcome pieces = read(bytes, limits, sizes);
  CHECK_EQ(pieces.requests.size(), whole.requests.size());
  for (size_t i = 0; i < whole.requests.size(); ++i) {
    const Request& request = whole.requests[i];
    CHECK(same(request, pieces.requests[i]));
    CHECK_LE(static_cast<int64_t>(request.headers.size()), limits.max_headers);
    CHECK(!request.method.empty() && !request.path.empty());
    if (fuzz::planted() && request.path.find('~') != std::string::npos) fuzz::found_planted();
  }
  // What is wrong with headers or a chunk's head that have not ended may be known to one and not yet to the other: most
  // is looked at when they have, and that they are as long as they may be is seen when more is asked for.
  CHECK(pieces.failed == whole.failed || (pieces.failed ? whole.unfinished : pieces.unfinished));
}

}  // namespace krait::http
