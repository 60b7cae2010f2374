// krait-tokenize FILE (tokenizer.json, or a GGUF file): JSON lines {"text"} in, {"ids", "special_ids", "decoded",
// "decoded_skip"} out.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/limits.h"
#include "common/base/result.h"
#include "coordinator/tokenizer/gguf_tokenizer.h"
#include "coordinator/tokenizer/tokenizer.h"

namespace krait::tokenizer {
namespace {

// Every byte of a text may be escaped in six characters.
constexpr size_t kMaxLineBytes = static_cast<size_t>(limits::kMaxEncodeBytes) * 6 + 1024;

Result<std::string> tokenize_line(const Tokenizer& tokenizer, const std::string& line) {
  if (line.size() > kMaxLineBytes) return Error{Errc::kTooLarge, "the line is too long", ""};
  const nlohmann::json in = nlohmann::json::parse(line, nullptr, false);
  if (in.is_discarded()) return Error{Errc::kInvalidArgument, "not JSON", ""};
  if (!in.is_object() || !in.contains("text") || !in["text"].is_string()) {
    return Error{Errc::kInvalidArgument, "must be an object with a string \"text\"", "text"};
  }
  const std::string text = in["text"].get<std::string>();
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.encode(text, {.add_special_tokens = false}));
  ASSIGN_OR_RETURN(const std::vector<int32_t> special_ids, tokenizer.encode(text, {.add_special_tokens = true}));
  nlohmann::ordered_json out;
  out["ids"] = ids;
  out["special_ids"] = special_ids;
  out["decoded"] = tokenizer.decode(ids, false);
  out["decoded_skip"] = tokenizer.decode(ids, true);
  return out.dump(-1, ' ', true);
}

Result<std::shared_ptr<const Tokenizer>> load(const std::string& path) {
  if (!path.ends_with(".gguf")) return Tokenizer::load(path);
  ASSIGN_OR_RETURN(const auto file, GgufFile::open(path));
  ASSIGN_OR_RETURN(auto tokenizer, load_gguf_tokenizer(*file));
  if (tokenizer == nullptr) return Error{Errc::kNotFound, path + " has no tokenizer", path};
  return tokenizer;
}

int run(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: krait-tokenize TOKENIZER_JSON|MODEL.gguf < LINES\n");
    return 1;
  }
  const auto tokenizer = load(argv[1]);
  if (!tokenizer.ok()) {
    fmt::print(stderr, "krait-tokenize: {}\n", to_string(tokenizer.error()));
    return 1;
  }
  std::ios::sync_with_stdio(false);
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    const Result<std::string> out = tokenize_line(**tokenizer, line);
    if (!out.ok()) {
      std::cout.flush();
      fmt::print(stderr, "krait-tokenize: line {}: {}\n", number, to_string(out.error()));
      return 1;
    }
    std::cout << *out << '\n';
  }
  std::cout.flush();
  if (!std::cout) {
    fmt::print(stderr, "krait-tokenize: the output cannot be written\n");
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace krait::tokenizer

int main(int argc, char** argv) {
  try {
    return krait::tokenizer::run(argc, argv);
  } catch (const std::exception& problem) {
    fmt::print(stderr, "krait-tokenize: {}\n", problem.what());
    return 1;
  }
}
