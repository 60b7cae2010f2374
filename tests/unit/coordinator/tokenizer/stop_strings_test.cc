#include "coordinator/tokenizer/stop_strings.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <utility>

namespace krait::tokenizer {
namespace {

StopMatcher matcher_of(std::vector<std::string> stops, bool include = false) {
  return StopMatcher(std::make_shared<const StopStrings>(std::move(stops)), include);
}

struct Outcome final {
  std::string text;
  bool stopped = false;
  size_t which = 0;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// The whole text at once, by trying every end in turn: the rule in one loop.
Outcome by_definition(const std::string& text, const std::vector<std::string>& stops, bool include) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t which = stops.size();
    for (size_t i = 0; i < stops.size(); ++i) {
      const bool matches = !stops[i].empty() && std::string_view(text).substr(0, end).ends_with(stops[i]);
      if (matches && (which == stops.size() || stops[i].size() > stops[which].size())) which = i;
    }
    if (which < stops.size()) return {text.substr(0, include ? end : end - stops[which].size()), true, which};
  }
  return {text, false, 0};
}

Outcome streamed(const std::vector<std::string>& pieces, const std::vector<std::string>& stops, bool include) {
  StopMatcher matcher = matcher_of(stops, include);
  Outcome outcome;
  for (const std::string& piece : pieces) {
    const StopMatcher::Piece out = matcher.push(piece);
    outcome.text += out.text;
    if (out.stopped) {
      outcome.stopped = true;
      outcome.which = out.which;
    }
  }
  outcome.text += matcher.flush();
  return outcome;
}

TEST(StopMatcher, WithoutStopStringsEverythingPassesAtOnce) {
  StopMatcher matcher = matcher_of({});
  EXPECT_EQ(matcher.push("some text").text, "some text");
  StopMatcher with_empty = matcher_of({""});
  EXPECT_EQ(with_empty.push("some text").text, "some text");
  EXPECT_EQ(with_empty.flush(), "");
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBeAStopString) {
  StopMatcher matcher = matcher_of({"\nUser:"});
  EXPECT_EQ(matcher.push("Hello\nUs").text, "Hello");
  EXPECT_EQ(matcher.push("ual\nUser").text, "\nUsual");
  const auto out = matcher.push(": more");
  EXPECT_EQ(out.text, "");
  EXPECT_TRUE(out.stopped);
  EXPECT_EQ(out.which, 0u);
  EXPECT_EQ(matcher.flush(), "");
  EXPECT_TRUE(matcher.push("and more").stopped) << "a stop is for good";
}

TEST(StopMatcher, NothingHeldBackIsLost) {
  StopMatcher matcher = matcher_of({"abcd"});
  EXPECT_EQ(matcher.push("xabc").text, "x");
  EXPECT_EQ(matcher.flush(), "abc");
}

TEST(StopMatcher, TheStopCanBeIncluded) {
  StopMatcher matcher = matcher_of({"END"}, true);
  EXPECT_EQ(matcher.push("the E").text, "the ");
  EXPECT_EQ(matcher.push("ND of it").text, "END");
}

TEST(StopMatcher, TheFirstToBeCompleteWinsThenTheLongest) {
  EXPECT_EQ(streamed({"one STOP two END"}, {"END", "STOP"}, false), (Outcome{"one ", true, 1}));
  EXPECT_EQ(streamed({"xabcd"}, {"abcd", "bc"}, false), (Outcome{"xa", true, 1}));
  EXPECT_EQ(streamed({"xabc"}, {"bc", "abc"}, false), (Outcome{"x", true, 1}));
  EXPECT_EQ(streamed({"xab"}, {"ab", "abc"}, false), (Outcome{"x", true, 0}));
}

TEST(StopMatcher, AgreesWithTheDefinitionHoweverTheTextIsCut) {
  std::mt19937 random(7);
  const auto draw = [&](size_t most) { return static_cast<size_t>(random() % (most + 1)); };
  const std::vector<std::string> alphabet{"a", "b", "\u00e9", "\u20ac"};
  const auto word = [&](size_t least, size_t most) {
    std::string text;
    for (size_t n = least + draw(most - least); n > 0; --n)
      text += alphabet[draw(draw(1) == 0 ? 1 : 3)];
    return text;
  };
  size_t stops_found = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::string> stops;
    for (size_t n = draw(4); n > 0; --n)
      stops.push_back(word(0, 6));
    std::vector<std::string> pieces;
    std::string text;
    for (size_t n = draw(12); n > 0; --n) {
      pieces.push_back(word(0, 4));
      text += pieces.back();
    }
    for (const bool include : {false, true}) {
      const Outcome expected = by_definition(text, stops, include);
      ASSERT_EQ(streamed(pieces, stops, include).text, expected.text);
      ASSERT_EQ(streamed(pieces, stops, include).stopped, expected.stopped);
      if (expected.stopped) {
        ASSERT_EQ(stops[streamed(pieces, stops, include).which], stops[expected.which]);
      }
      stops_found += expected.stopped ? 1 : 0;
    }
  }
  EXPECT_GT(stops_found, 5'000u);
}

TEST(StopMatcher, WhatIsSentNeverHasToBeTakenBack) {
  // At every point, what was sent is the beginning of the final text for every possible rest.
  const std::vector<std::string> stops{"aab", "abaa", "baab"};
  for (uint32_t bits = 0; bits < 1u << 12; ++bits) {
    std::string text;
    for (int i = 0; i < 12; ++i)
      text.push_back((bits >> i & 1) != 0 ? 'b' : 'a');
    const Outcome expected = by_definition(text, stops, false);
    StopMatcher matcher = matcher_of(stops);
    std::string sent;
    for (const char c : text) {
      const auto piece = matcher.push(std::string_view(&c, 1));
      sent += piece.text;
      ASSERT_TRUE(expected.text.starts_with(sent));
      if (piece.stopped) break;
    }
    ASSERT_EQ(sent + matcher.flush(), expected.text);
  }
}

TEST(StopStrings, TakeMemoryInProportionToTheirBytesAndShareBeginnings) {
  const std::string wide(4096, 'x');
  std::vector<std::string> apart;
  for (char first = 'a'; first < 'a' + 16; ++first)
    apart.push_back(first + wide);
  EXPECT_LT(StopStrings(apart).bytes(), 16 * 4097 * 24);
  EXPECT_LT(StopStrings(std::vector<std::string>(16, wide)).bytes(), 4096 * 24 + 16 * 4200);
}

TEST(StopStrings, AnyByteIsAsGoodAsAnother) {
  std::vector<std::string> all;
  for (int first = 0; first < 256; ++first)
    all.push_back({static_cast<char>(first), static_cast<char>(255 - first)});
  const StopStrings stops(all);
  for (int first = 0; first < 256; ++first) {
    const uint32_t node = stops.next(StopStrings::kRoot, static_cast<uint8_t>(first));
    EXPECT_EQ(stops.depth(node), 1u);
    EXPECT_EQ(stops.complete(stops.next(node, static_cast<uint8_t>(255 - first))), first);
  }
}

}  // namespace
}  // namespace krait::tokenizer
