// How fast text becomes token ids and ids become text, on one thread. Prints a table; judges nothing.
//
//   tokenizer_bench TOKENIZER_JSON TEXT_FILE
//   tokenizer_bench PIPELINES_JSONL    one line for each of the small tokenizers: the slowest megabyte without spaces
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "coordinator/tokenizer/stream_decoder.h"
#include "coordinator/tokenizer/tokenizer.h"
#include "coordinator/tokenizer/utf8.h"
#include "tests/support/spaceless_texts.h"
#include "tests/support/thread_seconds.h"

namespace krait::tokenizer {
namespace {

constexpr double kMinSeconds = 0.5;
constexpr size_t kLongBytes = 1'000'000;

/// Repeats `work` for a while of processor time and prints its rate on `bytes`.
void measure(const std::string& name, size_t bytes, const std::function<size_t()>& work) {
  size_t tokens = work();
  const double begin = test::thread_seconds();
  int rounds = 0;
  do {
    tokens = work();
    ++rounds;
  } while (test::thread_seconds() - begin < kMinSeconds);
  const double each = (test::thread_seconds() - begin) / rounds;
  fmt::print("{:<40} {:>10} bytes {:>10} tokens {:>10.2f} MB/s {:>10.1f} ns/token\n", name, bytes, tokens,
             static_cast<double>(bytes) / each / 1e6, each / static_cast<double>(tokens + 1) * 1e9);
}

std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.encode(text, {});
  if (!ids.ok()) fmt::print(stderr, "{}\n", to_string(ids.error()));
  return ids.ok() ? *ids : std::vector<int32_t>();
}

int run(const char* tokenizer_json, const char* text_file) {
  const double begin = test::thread_seconds();
  const auto loaded = Tokenizer::load(tokenizer_json);
  if (!loaded.ok()) {
    fmt::print(stderr, "{}\n", to_string(loaded.error()));
    return 1;
  }
  fmt::print("loaded in {:.0f} ms\n", (test::thread_seconds() - begin) * 1e3);
  const Tokenizer& tokenizer = **loaded;
  std::ifstream file(text_file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (text.empty() || !is_utf8(text)) {
    fmt::print(stderr, "{} cannot be read, is empty or is not UTF-8\n", text_file);
    return 1;
  }
  const std::vector<int32_t> ids = encode(tokenizer, text);
  measure("encode: the file", text.size(), [&] { return encode(tokenizer, text).size(); });
  measure("encode: its first 200 bytes", 200,
          [&, head = text.substr(0, 200)] { return encode(tokenizer, head).size(); });
  for (const auto& [name, spaceless] : test::spaceless_texts(kLongBytes))
    measure("encode: " + name, spaceless.size(), [&] { return encode(tokenizer, spaceless).size(); });
  measure("encode: spaces only", 1'000'000,
          [&, same = std::string(1'000'000, ' ')] { return encode(tokenizer, same).size(); });
  measure("decode: the file", text.size(), [&] { return tokenizer.decode(ids, false).size() > 0 ? ids.size() : 0; });
  measure("decode: the file, token by token", text.size(), [&] {
    StreamDecoder decoder(*loaded, false);
    for (const int32_t id : ids)
      decoder.push(id);
    decoder.flush();
    return ids.size();
  });
  return 0;
}

int run_pipelines(const char* pipelines_jsonl) {
  const auto texts = test::spaceless_texts(kLongBytes);
  std::ifstream file(pipelines_jsonl);
  for (std::string line; std::getline(file, line);) {
    const auto pipeline = nlohmann::json::parse(line);
    const auto loaded = Tokenizer::parse(pipeline["tokenizer"].dump());
    if (!loaded.ok()) {
      fmt::print(stderr, "{}\n", to_string(loaded.error()));
      return 1;
    }
    double slowest = 0;
    std::string which;
    for (const auto& [name, text] : texts) {
      const double begin = test::thread_seconds();
      encode(**loaded, text);
      const double seconds = test::thread_seconds() - begin;
      if (seconds > slowest) which = name;
      slowest = std::max(slowest, seconds);
    }
    fmt::print("{:<32} {:>6.2f} s for 1 MB of {}\n", pipeline["name"].get<std::string>(), slowest, which);
  }
  return 0;
}

}  // namespace
}  // namespace krait::tokenizer

int main(int argc, char** argv) {
  if (argc == 2) return krait::tokenizer::run_pipelines(argv[1]);
  if (argc != 3) {
    fmt::print(stderr, "usage: tokenizer_bench TOKENIZER_JSON TEXT_FILE, or tokenizer_bench PIPELINES_JSONL\n");
    return 1;
  }
  return krait::tokenizer::run(argv[1], argv[2]);
}
