// krait-tokenizer-lines TOKENIZER_JSON < LINES: everything that a tokenizer tells about a text and about some ids.
//
// A line {"text": str, "more_ids": [int], "chat": str, "untrusted": [[begin, end]]} gives a line
//   {"ids", "special_ids", "plain_ids", "chat_ids": [int]; "decoded", "decoded_skip", "more_decoded",
//   "more_decoded_skip": str}
// as tests/golden/tokenizers/make_pipelines.py describes them; more_decoded is the text of more_ids, as a stream gives
// it, and chat_ids are those of the chat, of which some bytes are not to be taken for special tokens. A text that
// cannot be encoded gives {"error": str}.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "coordinator/tokenizer/stream_decoder.h"
#include "coordinator/tokenizer/tokenizer.h"

namespace krait::tokenizer {
namespace {

std::string streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<int32_t>& ids, bool skip) {
  StreamDecoder stream(tokenizer, skip);
  std::string text;
  for (const int32_t id : ids)
    text += stream.push(id);
  return text + stream.flush();
}

Result<nlohmann::json> answer(const std::shared_ptr<const Tokenizer>& tokenizer, const nlohmann::json& in) {
  const auto text = in["text"].get<std::string>();
  const auto more_ids = in["more_ids"].get<std::vector<int32_t>>();
  ASSIGN_OR_RETURN(const auto ids, tokenizer->encode(text, {.add_special_tokens = false}));
  ASSIGN_OR_RETURN(const auto special_ids, tokenizer->encode(text, {.add_special_tokens = true}));
  ASSIGN_OR_RETURN(const auto plain_ids,
                   tokenizer->encode(text, {.add_special_tokens = false, .parse_special = false}));
  std::vector<ByteRange> untrusted;
  for (const auto& range : in["untrusted"])
    untrusted.push_back({range[0].get<size_t>(), range[1].get<size_t>()});
  const auto chat = in["chat"].get<std::string>();
  ASSIGN_OR_RETURN(const auto chat_ids, tokenizer->encode(chat, {.add_special_tokens = false, .untrusted = untrusted}));
  nlohmann::json out{{"ids", ids}, {"special_ids", special_ids}, {"plain_ids", plain_ids}, {"chat_ids", chat_ids}};
  for (const bool skip : {false, true}) {
    const std::string suffix = skip ? "_skip" : "";
    out["decoded" + suffix] = tokenizer->decode(ids, skip);
    out["more_decoded" + suffix] = streamed(tokenizer, more_ids, skip);
  }
  return out;
}

int run(const char* tokenizer_json) {
  const auto tokenizer = Tokenizer::load(tokenizer_json);
  if (!tokenizer.ok()) {
    fmt::print(stderr, "{}\n", to_string(tokenizer.error()));
    return 1;
  }
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    const Result<nlohmann::json> out = answer(*tokenizer, nlohmann::json::parse(line));
    std::cout << (out.ok() ? *out : nlohmann::json{{"error", to_string(out.error())}}).dump(-1, ' ', true) << '\n';
  }
  return 0;
}

}  // namespace
}  // namespace krait::tokenizer

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: krait-tokenizer-lines TOKENIZER_JSON < LINES\n");
    return 1;
  }
  return krait::tokenizer::run(argv[1]);
}
