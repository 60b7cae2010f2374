// What a long conversation costs before a group sees it: rendering, tokenizing it the first time, and again with a new
// message. Prints a table; judges nothing.
//
//   chat_bench TOKENIZER_JSON TEMPLATE_FILE
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "coordinator/chat_template/chat_template.h"
#include "coordinator/chat_template/json.h"
#include "coordinator/tokenizer/stretch_cache.h"
#include "coordinator/tokenizer/tokenizer.h"
#include "tests/support/thread_seconds.h"

namespace krait {
namespace {

using chat_template::ChatTemplate;
using chat_template::Rendered;
using chat_template::Value;

constexpr int kMessages = 200;
constexpr int kWords = 420;  // of a message: 100,000 tokens in all, about
constexpr int64_t kCacheBytes = int64_t{64} << 20;

std::string conversation(int messages) {
  static constexpr const char* kSome[] = {"truth", "universally", "acknowledged", "that", "a",    "single",
                                          "man",   "possession",  "of",           "good", "must", "fortune"};
  std::string json = R"({"messages":[)";
  uint32_t seed = 1;
  for (int i = 0; i < messages; ++i) {
    json += fmt::format(R"({}{{"role":"{}","content":")", i > 0 ? "," : "", i % 2 == 0 ? "user" : "assistant");
    for (int word = 0; word < kWords; ++word) {
      seed = seed * 1664525 + 1013904223;
      json += fmt::format("{}{} ", kSome[seed >> 16 & 7], (seed >> 20 & 63) == 0 ? fmt::format("{}", seed) : "");
    }
    json += "\"}";
  }
  return json + R"(],"add_generation_prompt":true,"bos_token":"<s>","eos_token":"<|endoftext|>"})";
}

struct Measured final {
  double render_s = 0;
  double encode_s = 0;
  size_t bytes = 0;
  size_t tokens = 0;
};

Measured measure(const ChatTemplate& chat, const tokenizer::Tokenizer& tokenizer, tokenizer::StretchCache* cache,
                 const std::string& json) {
  Measured out;
  const double begin = test::thread_seconds();
  const Value values = chat_template::parse_json(json).value();
  ChatTemplate::Variables variables;
  for (const auto& [key, value] : values.as_dict().entries) {
    const bool trusted = key.bytes().ends_with("_token");
    variables.emplace_back(key.bytes(), trusted ? Value::string(value.bytes(), true) : value);
  }
  const Rendered rendered = chat.render(variables, 0).value();
  const double middle = test::thread_seconds();
  out.tokens = tokenizer.encode(rendered.text, {false, true, rendered.untrusted, cache}).value().size();
  out.encode_s = test::thread_seconds() - middle;
  out.render_s = middle - begin;
  out.bytes = rendered.text.size();
  return out;
}

int run(const char* tokenizer_json, const char* template_file) {
  const auto tokenizer = tokenizer::Tokenizer::load(tokenizer_json).value();
  std::ifstream file(template_file);
  const std::string source((std::istreambuf_iterator<char>(file)), {});
  const auto chat = ChatTemplate::parse(source, template_file).value();
  const std::string told = conversation(kMessages);
  const std::string asked = conversation(kMessages + 1);
  measure(*chat, *tokenizer, nullptr, told);  // buffers and words
  tokenizer::StretchCache cache(kCacheBytes);
  const auto print = [&](const char* name, tokenizer::StretchCache* with, const std::string& json) {
    const auto before = cache.counts().encoded_bytes;
    const Measured it = measure(*chat, *tokenizer, with, json);
    fmt::print("{:<40} {:>8} tokens {:>8} bytes, {:>8} tokenized {:>8.2f} ms, rendered in {:>8.2f} ms\n", name,
               it.tokens, it.bytes, with == nullptr ? it.bytes : cache.counts().encoded_bytes - before,
               it.encode_s * 1e3, it.render_s * 1e3);
  };
  print("without a cache", nullptr, told);
  print("first time", &cache, told);
  print("again with a new message", &cache, asked);
  print("the same once more", &cache, asked);
  return 0;
}

}  // namespace
}  // namespace krait

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: chat_bench TOKENIZER_JSON TEMPLATE_FILE\n");
    return 1;
  }
  return krait::run(argv[1], argv[2]);
}
