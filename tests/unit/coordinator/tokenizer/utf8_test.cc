#include "coordinator/tokenizer/utf8.h"

#include <gtest/gtest.h>

namespace krait::tokenizer {
namespace {

std::string encode_plainly(uint32_t c) {
  std::string out;
  append_code_point(out, c);
  return out;
}

TEST(Utf8, EveryCodePointThereAndBack) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    const std::string text = encode_plainly(c);
    const bool surrogate = c >= 0xd800 && c < 0xe000;
    ASSERT_EQ(is_utf8(text), !surrogate) << static_cast<uint32_t>(c);
    if (surrogate) continue;
    size_t at = 0;
    ASSERT_TRUE(next_code_point(text, at) == c);
    ASSERT_EQ(at, text.size());
    ASSERT_EQ(utf8_length(text[0]), text.size());
    ASSERT_TRUE(previous_code_point(text, at) == c);
    ASSERT_EQ(at, 0u);
  }
}

TEST(Utf8, AWholeCharacterIsTheOneThatEncodesBack) {
  // All two- and three-byte strings: valid is what some code point encodes to.
  std::vector<bool> valid3(1 << 24, false);
  for (char32_t c = 0x800; c < 0x10000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    const std::string text = encode_plainly(c);
    valid3[static_cast<size_t>(static_cast<uint8_t>(text[0])) << 16 |
           static_cast<size_t>(static_cast<uint8_t>(text[1])) << 8 | static_cast<uint8_t>(text[2])] = true;
  }
  std::string text(3, '\0');
  for (uint32_t bits = 0xe00000; bits < 0xf00000; ++bits) {
    text[0] = static_cast<char>(bits >> 16);
    text[1] = static_cast<char>(bits >> 8);
    text[2] = static_cast<char>(bits);
    const Utf8Step step = utf8_step(text);
    ASSERT_EQ(step.kind == Utf8Kind::kWhole, valid3[bits]) << bits;
  }
}

TEST(LossyUtf8, BrokenBytesBecomeReplacementsByLongestBeginnings) {
  // Examples of the Unicode Standard, chapter 3, "U+FFFD Substitution of Maximal Subparts".
  const std::pair<const char*, const char*> examples[] = {
      {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\x41"},
      {"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\x41"},
      {"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", "\ufffd\ufffd\ufffd\ufffd\ufffd\x41\ufffd\ufffd\x42"},
      {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", "\ufffd\ufffd\ufffd\ufffd\x41"},
  };
  for (const auto& [bytes, expected] : examples) {
    const std::string_view all = bytes;
    for (size_t cut = 0; cut <= all.size(); ++cut) {
      LossyUtf8 lossy;
      std::string text;
      lossy.push(all.substr(0, cut), text);
      lossy.push(all.substr(cut), text);
      lossy.finish(text);
      EXPECT_EQ(text, expected) << cut;
    }
  }
}

}  // namespace
}  // namespace krait::tokenizer
