#include "coordinator/tokenizer/unicode.h"

#include <gtest/gtest.h>

#include "coordinator/tokenizer/byte_level.h"
#include "coordinator/tokenizer/regex.h"

namespace krait::tokenizer {
namespace {

TEST(Unicode, ClassesOfCharacters) {
  EXPECT_EQ(char_class(U'a'), CharClass::kLetter);
  EXPECT_EQ(char_class(U'ß'), CharClass::kLetter);
  EXPECT_EQ(char_class(U'語'), CharClass::kLetter);
  EXPECT_EQ(char_class(0x2ebf0), CharClass::kLetter) << "since Unicode 15.1";
  EXPECT_EQ(char_class(0x1ccf0), CharClass::kNumber) << "since Unicode 16";
  EXPECT_EQ(char_class(U'½'), CharClass::kNumber);
  EXPECT_EQ(char_class(0x85), CharClass::kSpace);
  EXPECT_EQ(char_class(0x3000), CharClass::kSpace);
  EXPECT_EQ(char_class(0x1c), CharClass::kOther);
  EXPECT_EQ(char_class(0x180e), CharClass::kOther) << "a space until Unicode 6.3";
  EXPECT_EQ(char_class(0x200b), CharClass::kOther);
  EXPECT_TRUE(is_punctuation(U'$'));
  EXPECT_TRUE(is_punctuation(U'«'));
  EXPECT_FALSE(is_punctuation(U'€'));
  EXPECT_TRUE(is_word_char(U'_'));
  EXPECT_TRUE(is_word_char(0x0301));
  EXPECT_FALSE(is_word_char(U'½'));
}

TEST(Unicode, NormalFormsAcrossTheCutsOfTheFastPath) {
  // Sequences that compose over what the fast path takes for the end of settled text.
  EXPECT_EQ(normal_form("e\u0301", NormalForm::kNfc), "\u00e9");
  EXPECT_EQ(normal_form("abce\u0301xyz", NormalForm::kNfc), "abc\u00e9xyz");
  EXPECT_EQ(normal_form("\u0301", NormalForm::kNfc), "\u0301");
  EXPECT_EQ(normal_form("e\u0328\u0301e\u0301\u0328", NormalForm::kNfc), "\u0119\u0301\u0119\u0301");
  EXPECT_EQ(normal_form("\u304b\u3099", NormalForm::kNfc), "\u304c");
  EXPECT_EQ(normal_form("\uac00\u11a8", NormalForm::kNfc), "\uac01");
  EXPECT_EQ(normal_form("\u1112\u1161\u11ab", NormalForm::kNfc), "\ud55c");
  EXPECT_EQ(normal_form("\u212b\u2126", NormalForm::kNfc), "\u00c5\u03a9");
  EXPECT_EQ(normal_form("\u00e9", NormalForm::kNfd), "e\u0301");
  EXPECT_EQ(normal_form("\ufb01x\u00b2", NormalForm::kNfkc), "fix2");
  EXPECT_EQ(normal_form("a\u0307\u0323", NormalForm::kNfkd), "a\u0323\u0307");
  EXPECT_EQ(lower_case("\u0130STANBUL \u03a3"), "i\u0307stanbul \u03c3");
}

TEST(Unicode, NormalFormsKnowWhatTheReferenceKnows) {
  // Its tables are those of Unicode 9: marks, compositions and compatible characters since then are none of its
  // business.
  EXPECT_EQ(normal_form("a\U00010d27\u0323", NormalForm::kNfc), "a\U00010d27\u0323");
  EXPECT_EQ(normal_form("\U00011935\U00011930", NormalForm::kNfc), "\U00011935\U00011930");
  EXPECT_EQ(normal_form("\U00011938", NormalForm::kNfd), "\U00011938");
  EXPECT_EQ(normal_form("\u32ff\U0001e04c\ufb01", NormalForm::kNfkc), "\u32ff\U0001e04cfi");
  EXPECT_EQ(normal_form("\u1106\u1168\u11a7", NormalForm::kNfc), "\uba8c\u11a7")
      << "behind a syllable, and no part of it";
  EXPECT_EQ(lower_case("\u1c89\ua7cb\U00010d65\U00016eb8"), "\u1c8a\u0264\U00010d85\U00016ed3");
}

TEST(ByteLevel, WordsAreThoseOfTheExpression) {
  const auto regex =
      Regex::compile("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", "test");
  ASSERT_TRUE(regex.ok());
  RegexScratch scratch;
  // All texts of up to six of these pieces.
  const std::vector<std::string> pieces{"a", "1", "'", "s", "l", " ", "\n", "#", "\u00e9", "\u3000"};
  const auto check = [&](const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const auto match = regex.value().find(text, at, scratch);
      ASSERT_TRUE(match.ok() && match->found);
      ASSERT_EQ(match->begin, at) << text;
      ASSERT_EQ(gpt2_word_end(text, at), match->end) << text << " at " << at;
      at = match->end;
    }
  };
  for (uint32_t number = 0; number < 1'000'000; ++number) {
    std::string text;
    for (uint32_t rest = number, i = 0; i < 6; ++i, rest /= 10)
      text += pieces[rest % 10];
    check(text);
    if (HasFatalFailure()) return;
  }
}

TEST(ByteLevel, BytesThereAndBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte)
    all.push_back(static_cast<char>(byte));
  std::string mapped;
  append_byte_chars(all, mapped);
  EXPECT_EQ(bytes_of_byte_chars(mapped), all);
  EXPECT_EQ(bytes_of_byte_chars("\u0120a b"), "\u0120a b")
      << "a space is not of the alphabet: the text is taken as it is";
}

TEST(Unicode, DigitsFollowANewerUnicodeThanPatterns) {
  for (const char32_t c : {U'0', U'\u00b2', U'\U00010d40', U'\U00011de0', U'\U00011de9', U'\U00016ff4', U'\U00016ff6'})
    EXPECT_TRUE(is_digit(c)) << static_cast<uint32_t>(c);
  for (const char32_t c : {U'a', U'\U00011ddf', U'\U00011dea', U'\U00016ff3', U'\U00016ff7'})
    EXPECT_FALSE(is_digit(c)) << static_cast<uint32_t>(c);
  EXPECT_FALSE(is_number(U'\U00011de9'));
}

TEST(Regex, ShorthandsMeanWhatTheyMeanInOniguruma) {
  RegexScratch scratch;
  const auto finds = [&](const char* pattern, std::string_view text) {
    const auto regex = Regex::compile(pattern, "test");
    EXPECT_TRUE(regex.ok()) << pattern;
    const auto match = regex.value().find(text, 0, scratch);
    return match.ok() && match->found;
  };
  EXPECT_TRUE(finds("\\s", "\u0085"));
  EXPECT_TRUE(finds("[\\s]", "\u0085"));
  EXPECT_FALSE(finds("\\s", "\u180e"));
  EXPECT_TRUE(finds("\\S", "\u180e"));
  EXPECT_FALSE(finds("[^\\s]", " "));
  EXPECT_TRUE(finds("\\h", "f"));
  EXPECT_TRUE(finds("^b$", "a\nb\nc"));
  EXPECT_TRUE(finds("\\\\s", "\\s"));
  EXPECT_TRUE(finds("\\w", "\u0301"));
  EXPECT_TRUE(finds("[^a\\w]", "\u09f4")) << "a number, but no decimal digit";
  EXPECT_TRUE(finds("\\W", "\u09f4"));
  // Characters since Unicode 14, in and outside of classes.
  for (const char* pattern :
       {"\\p{L}", "[\\p{L}]", "\\p{Lo}", "[^\\P{L}x]|\\p{Han}", "\\w", "\\P{N}", "\\p{^N}", "\\D"})
    EXPECT_TRUE(finds(pattern, "\U0002ebf0")) << pattern;
  for (const char* pattern : {"\\P{L}", "\\p{^L}", "[^\\p{L}]", "\\p{N}", "\\p{Lu}", "\\W", "\\p{Latin}"})
    EXPECT_FALSE(finds(pattern, "\U0002ebf0")) << pattern;
  for (const char* pattern : {"\\p{Cyrillic}", "[\\p{Cyrillic}]", "\\P{Latin}", "\\p{^Greek}", "[^\\p{Common}]"})
    EXPECT_TRUE(finds(pattern, "\U0001e059")) << pattern;
  for (const char* pattern : {"\\P{Cyrillic}", "\\p{^Cyrillic}", "[^\\p{Cyrillic}]", "\\p{Latin}", "\\p{Common}"})
    EXPECT_FALSE(finds(pattern, "\U0001e059")) << pattern;
  EXPECT_TRUE(finds("\\d", "\U00010d40"));
  EXPECT_TRUE(finds("[\\d]", "\U00010d40"));
  EXPECT_FALSE(finds("\\D", "\U00010d40"));
  EXPECT_FALSE(finds("\\p{Han}", "\u3001")) << "used with the script, and not of it";
  EXPECT_TRUE(finds("\\P{Han}", "\u3001"));
  EXPECT_TRUE(finds("[]a]", "]"));
  EXPECT_FALSE(finds("[^]a]", "]"));
  for (const char* pattern :
       {"(", "[a[bc]]", "[a&&b]", "[[:punct:]]", "\\bword", "\\Gword", "[\\W]", "\\p{Klingon}", "\\p{}", "\\p{L"}) {
    EXPECT_FALSE(Regex::compile(pattern, "test").ok()) << pattern;
  }
}

TEST(Regex, APatternThatExplodesGivesUp) {
  const auto regex = Regex::compile("(a+a+)+(b|d)", "test");
  ASSERT_TRUE(regex.ok());
  RegexScratch scratch;
  const auto match = regex.value().find(std::string(5'000, 'a') + "c", 0, scratch);
  ASSERT_FALSE(match.ok());
  EXPECT_EQ(match.error().code, Errc::kInvalidArgument);
  EXPECT_EQ(match.error().message, "a pattern of the tokenizer needs too many steps for this text");
}

TEST(Regex, AMatchThatLooksFarFromEachPlaceEndsInTheTextsTime) {
  const auto regex = Regex::compile("(?=a).*c", "test").value();
  std::string text(1'000'000, 'a');
  RegexScratch scratch;
  scratch.begin_text(0);
  const auto match = regex.find(text + "\nc", 0, scratch);
  ASSERT_FALSE(match.ok()) << "a million places, a million steps from each";
  EXPECT_EQ(match.error().code, Errc::kInvalidArgument);
}

TEST(Regex, AMatchFarFromTheBeginningOfALongTextIsFound) {
  const auto regex = Regex::compile("(?<=\u00e9)(?=b)", "test").value();
  RegexScratch scratch;
  for (size_t before : {49'999, 300'000, 300'001}) {
    std::string text;
    while (text.size() < 2 * before)
      text += "\u00e9";
    const auto match = regex.find("a" + text + "b" + text, 0, scratch);
    ASSERT_TRUE(match.ok());
    EXPECT_TRUE(match->found);
    EXPECT_EQ(match->begin, 1 + text.size());
    EXPECT_FALSE(regex.find("a" + text + "a" + text, 0, scratch)->found);
  }
}

TEST(Regex, APatternThatCallsItselfWithoutEndIsRefused) {
  for (const char* pattern : {"(?R)", "(?R)|a", "a?(?R)"}) {
    const auto regex = Regex::compile(pattern, "test");
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_EQ(regex.error().code, Errc::kUnsupported);
    EXPECT_NE(regex.error().message.find("calls itself without end"), std::string::npos) << regex.error().message;
  }
  EXPECT_TRUE(Regex::compile("\\((?:[^()]|\\g<0>)*\\)", "test").ok()) << "a call that an opening bracket ends";
}

}  // namespace
}  // namespace krait::tokenizer
