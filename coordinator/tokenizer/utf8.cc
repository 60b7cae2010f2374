#include "coordinator/tokenizer/utf8.h"

#include <cstring>

namespace krait::tokenizer {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

struct Lead final {
  size_t bytes = 0;                               // of the whole character; 0 where no character begins so
  uint8_t second_low = 0x80, second_high = 0xbf;  // range of the second byte: excludes overlong forms and surrogates
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xc2) return {0};
  if (byte < 0xe0) return {2};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0};
}

}  // namespace

Utf8Step utf8_step(std::string_view bytes) {
  const Lead lead = lead_of(static_cast<uint8_t>(bytes[0]));
  if (lead.bytes == 0) return {Utf8Kind::kBroken, 1};
  for (size_t i = 1; i < lead.bytes; ++i) {
    if (i >= bytes.size()) return {Utf8Kind::kUnfinished, i};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t low = i == 1 ? lead.second_low : 0x80;
    const uint8_t high = i == 1 ? lead.second_high : 0xbf;
    if (byte < low || byte > high) return {Utf8Kind::kBroken, i};
  }
  return {Utf8Kind::kWhole, lead.bytes};
}

bool is_utf8(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    // Most text is ASCII: eight bytes at a time.
    while (at + 8 <= bytes.size()) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + at, 8);
      if ((word & 0x8080808080808080u) != 0) break;
      at += 8;
    }
    if (at == bytes.size()) break;
    const Utf8Step step = utf8_step(bytes.substr(at));
    if (step.kind != Utf8Kind::kWhole) return false;
    at += step.bytes;
  }
  return true;
}

char32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
  const char32_t first = byte(at);
  const size_t bytes = utf8_length(text[at]);
  char32_t code_point = bytes == 1 ? first : first & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i)
    code_point = code_point << 6 | (byte(at + i) & 0x3f);
  at += bytes;
  return code_point;
}

char32_t previous_code_point(std::string_view text, size_t& at) {
  do {
    --at;
  } while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80);
  size_t walk = at;
  return next_code_point(text, walk);
}

void append_code_point(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

void LossyUtf8::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!unfinished_.empty()) {
    joined = std::move(unfinished_);
    unfinished_.clear();
    joined += bytes;
    bytes = joined;
  }
  while (!bytes.empty()) {
    const Utf8Step step = utf8_step(bytes);
    if (step.kind == Utf8Kind::kUnfinished) {
      unfinished_ = bytes;
      return;
    }
    out += step.kind == Utf8Kind::kWhole ? bytes.substr(0, step.bytes) : kReplacement;
    bytes.remove_prefix(step.bytes);
  }
}

void LossyUtf8::finish(std::string& out) {
  if (!unfinished_.empty()) out += kReplacement;
  unfinished_.clear();
}

}  // namespace krait::tokenizer
