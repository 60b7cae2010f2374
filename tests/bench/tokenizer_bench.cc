// How fast text becomes token ids and ids become text, on one thread. Prints a table; judges nothing.
//
//   tokenizer_bench TOKENIZER_JSON TEXT_FILE
#include <fmt/format.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/tokenizer/stream_decoder.h"
#include "coordinator/tokenizer/tokenizer.h"

namespace krait::tokenizer {
namespace {

constexpr double kMinSeconds = 1.0;

/// Processor time of this thread: other programs on the machine do not count.
double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Repeats `work` for a second of processor time and prints its rate on `bytes`.
void measure(const char* name, size_t bytes, const std::function<size_t()>& work) {
  size_t tokens = work();
  const double begin = seconds_now();
  int rounds = 0;
  do {
    tokens = work();
    ++rounds;
  } while (seconds_now() - begin < kMinSeconds);
  const double each = (seconds_now() - begin) / rounds;
  fmt::print("{:<40} {:>10} bytes {:>10} tokens {:>10.2f} MB/s {:>10.1f} ns/token\n", name, bytes, tokens,
             static_cast<double>(bytes) / each / 1e6, each / static_cast<double>(tokens + 1) * 1e9);
}

std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.encode(text, {});
  if (!ids.ok()) fmt::print(stderr, "{}\n", to_string(ids.error()));
  return ids.ok() ? *ids : std::vector<int32_t>();
}

int run(const char* tokenizer_json, const char* text_file) {
  const double begin = seconds_now();
  const auto loaded = Tokenizer::load(tokenizer_json);
  if (!loaded.ok()) {
    fmt::print(stderr, "{}\n", to_string(loaded.error()));
    return 1;
  }
  fmt::print("loaded in {:.0f} ms\n", (seconds_now() - begin) * 1e3);
  const Tokenizer& tokenizer = **loaded;
  std::ifstream file(text_file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (text.empty()) {
    fmt::print(stderr, "{} cannot be read, or is empty\n", text_file);
    return 1;
  }
  std::string wide;
  while (wide.size() < 1'000'000)
    wide += "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002";
  std::string letters;
  for (uint32_t seed = 1; letters.size() < 1'000'000; seed = seed * 1664525 + 1013904223) {
    letters.push_back(static_cast<char>('a' + (seed >> 24) % 26));
  }
  const std::vector<int32_t> ids = encode(tokenizer, text);
  measure("encode: the file", text.size(), [&] { return encode(tokenizer, text).size(); });
  measure("encode: its first 200 bytes", 200,
          [&, head = text.substr(0, 200)] { return encode(tokenizer, head).size(); });
  measure("encode: Japanese", wide.size(), [&] { return encode(tokenizer, wide).size(); });
  measure("encode: random letters, no space", letters.size(), [&] { return encode(tokenizer, letters).size(); });
  measure("encode: one letter again and again", 1'000'000,
          [&, same = std::string(1'000'000, 'a')] { return encode(tokenizer, same).size(); });
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

}  // namespace
}  // namespace krait::tokenizer

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: tokenizer_bench TOKENIZER_JSON TEXT_FILE\n");
    return 1;
  }
  return krait::tokenizer::run(argv[1], argv[2]);
}
