// Reads the cases of tests/golden/tokenizers.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "coordinator/tokenizer/tokenizer.h"
#include "tests/support/golden.h"

namespace krait::tokenizer {

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

}  // namespace krait::tokenizer
