// Reads the cases of tests/golden/tokenizers.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "coordinator/tokenizer/stream_decoder.h"
#include "coordinator/tokenizer/tokenizer.h"
#include "coordinator/tokenizer/utf8.h"
#include "tests/support/draws.h"
#include "tests/support/golden.h"

namespace krait::tokenizer {

inline constexpr size_t kPipelines = 49;  // lines of pipelines.jsonl

inline std::vector<nlohmann::json> read_json_lines(const std::string& name) {
  std::ifstream file(test::golden_path("tokenizers/" + name));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);)
    lines.push_back(nlohmann::json::parse(line));
  return lines;
}

inline std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text, bool add_special = false,
                                   bool parse_special = true) {
  const auto ids = tokenizer.encode(text, {.add_special_tokens = add_special, .parse_special = parse_special});
  EXPECT_TRUE(ids.ok()) << (ids.ok() ? "" : to_string(ids.error()));
  return ids.ok() ? *ids : std::vector<int32_t>();
}

/// The tokenizer in tests/golden/tokenizers; fails the test and is null where it cannot be loaded.
inline std::shared_ptr<const Tokenizer> load_golden(const std::string& name) {
  auto loaded = Tokenizer::load(test::golden_path("tokenizers/" + name + ".json"));
  EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : to_string(loaded.error()));
  return loaded.ok() ? *loaded : nullptr;
}

/// Up to 24 ids that no text gives: many of them bytes that are no whole character, a few that no token has.
inline std::vector<int32_t> any_ids(const Tokenizer& tokenizer, std::mt19937& random) {
  std::vector<int32_t> ids(random() % 25);
  for (int32_t& id : ids) {
    const int tries = random() % 3 == 0 ? 20 : 1;
    for (int i = 0; i < tries; ++i) {
      id = static_cast<int32_t>(random() % (static_cast<uint32_t>(tokenizer.vocab_size()) + 3)) - 1;
      if (!is_utf8(tokenizer.token_bytes(id))) break;
    }
  }
  return ids;
}

/// A stream that is cut behind any of the ids gives the text of those before, in whole characters, and what it sent
/// does not depend on those behind.
inline void expect_streams_are_whole(const std::shared_ptr<const Tokenizer>& tokenizer, std::span<const int32_t> ids) {
  for (const bool skip : {false, true}) {
    StreamDecoder stream(tokenizer, skip);
    std::string sent;
    for (size_t cut = 0;; ++cut) {
      StreamDecoder ending(tokenizer, skip);
      std::string text;
      for (const int32_t id : ids.first(cut))
        text += ending.push(id);
      EXPECT_EQ(text, sent) << "cut at " << cut;
      EXPECT_EQ(text + ending.flush(), tokenizer->decode(ids.first(cut), skip)) << "cut at " << cut;
      if (cut == ids.size()) break;
      const std::string piece = stream.push(ids[cut]);
      EXPECT_TRUE(is_utf8(piece)) << "at id " << cut;
      sent += piece;
    }
  }
}

}  // namespace krait::tokenizer
