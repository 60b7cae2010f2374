// A message on its way: bytes as they come, or (an odd first byte) a sound message with changes that the input names,
// so that the fuzzer need not find out how one is framed. Coordinator, leader and rank all read by decode().
#include "common/wire/codec.h"
#include "tests/fuzz/harness.h"
#include "tests/support/random_message.h"

namespace krait::wire {
namespace {

std::vector<std::byte> changed_message(fuzz::Source& source) {
  const size_t kind = source.byte() % test::kMessageKinds;
  SplitMix64 random(source.take<uint16_t>());
  std::vector<std::byte> bytes = encode(test::random_message(random, kind, source.byte() % 8));
  while (!source.empty()) {
    const size_t at = source.take<uint16_t>() % bytes.size();
    if (source.byte() == 0) {
      bytes.resize(std::max<size_t>(1, at));
    } else {
      bytes[at] = static_cast<std::byte>(source.byte());
    }
  }
  return bytes;
}

/// Equal field by field, where NaN is equal to itself: what travels is bits.
bool same(const Message& a, const Message& b) {
  return a == b || encode(a) == encode(b);
}

}  // namespace

KRAIT_FUZZ(wire, input) {
  fuzz::Source source(input);
  std::vector<std::byte> bytes;
  if (source.byte() % 2 == 1) {
    bytes = changed_message(source);
  } else {
    const auto rest = std::as_bytes(source.rest());
    bytes.assign(rest.begin(), rest.end());
  }
  const Result<Message> decoded = decode(bytes);
  if (!decoded.ok()) {
    CHECK(decoded.error().code == Errc::kProtocol || decoded.error().code == Errc::kCorrupt ||
          decoded.error().code == Errc::kTooLarge);
    return fuzz::check_error_text(decoded.error().message, decoded.error().param);
  }
  const Result<Message> again = decode(encode(*decoded));
  CHECK(again.ok());
  CHECK_EQ(message_name(*again), message_name(*decoded));
  CHECK(same(*again, *decoded));
  const auto* cancel = std::get_if<Cancel>(&*decoded);
  if (cancel != nullptr && fuzz::planted_at(cancel->keep)) fuzz::found_planted();
}

}  // namespace krait::wire
