// Long texts without a space, of the kinds that make tokenizers slow. They are one word, or nearly so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace krait::test {

/// (what it is, a text of at least so many bytes) for each kind.
inline std::vector<std::pair<std::string, std::string>> spaceless_texts(size_t bytes) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, piece] :
       std::vector<std::pair<std::string, std::string>>{{"one letter", "a"},
                                                        {"digits", "1827364550"},
                                                        {"signs", "!?$+<=>"},
                                                        {"apostrophes", "'"},
                                                        {"lines", "\n"},
                                                        {"Japanese", "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002"},
                                                        {"emoji", "\U0001f469\u200d\U0001f469\u200d\U0001f467"},
                                                        {"parts of Hangul", "\u1112\u1161\u11ab"},
                                                        {"marks in order", "\u0323\u0301"},
                                                        {"letters to be composed", "e\u0328\u0301"},
                                                        {"letters to be taken apart", "\u1ed9\ufdfa"},
                                                        {"marks of spaces", "\u2581"},
                                                        {"half a special token", "<s"},
                                                        {"special tokens", "<s>"},
                                                        {"characters that nobody knows", "\U000e0fff"}}) {
    std::string text;
    text.reserve(bytes + piece.size());
    while (text.size() < bytes)
      text += piece;
    texts.emplace_back(name, std::move(text));
  }
  // Each mark belongs before those of the other half.
  std::string marks = "a";
  while (marks.size() < bytes)
    marks += marks.size() < bytes / 2 ? "\u0301" : "\u0323";
  texts.emplace_back("marks out of order", std::move(marks));
  std::string letters;
  for (uint32_t seed = 1; letters.size() < bytes; seed = seed * 1664525 + 1013904223)
    letters.push_back(static_cast<char>('a' + (seed >> 24) % 26));
  texts.emplace_back("random letters", std::move(letters));
  return texts;
}

}  // namespace krait::test
