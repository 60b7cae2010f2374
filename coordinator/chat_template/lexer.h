// A template's text as tokens, with whitespace cut as jinja2 does with trim_blocks and lstrip_blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/chat_template/position.h"

namespace krait::chat_template {

/// What is wrong with a template; thrown within the room, caught where it is loaded.
struct SyntaxError final {
  std::string message;
  Position at;
};

[[noreturn]] void fail(Position at, std::string message);

enum class TokenKind : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token final {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // data, name, operator; a string without quotes and escapes
  int64_t integer = 0;
  double real = 0;
  Position at;

  bool is_name(std::string_view name) const { return kind == TokenKind::kName && text == name; }
  bool is_operator(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
};

/// All tokens of a template in valid UTF-8, kEnd last. Throws SyntaxError.
std::vector<Token> tokenize(std::string_view source);

/// What a string literal means: `body` is what stands between its quotes.
std::string unescaped(std::string_view body, Position where);

}  // namespace krait::chat_template
