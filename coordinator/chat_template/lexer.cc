#include "coordinator/chat_template/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "coordinator/chat_template/unicode.h"

namespace krait::chat_template {
namespace {

constexpr auto kOperators =
    std::to_array<std::string_view>({"**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                     "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"});

/// All line ends as \n; the last one goes.
std::string with_plain_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_digit_char(char c) {
  return c >= '0' && c <= '9';
}

bool is_word(char c) {
  return is_digit_char(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class Lexer final {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size())
      root();
    push(TokenKind::kEnd, "", at_);
    return std::move(tokens_);
  }

 private:
  /// Places are mostly asked for in order: counting goes on from the last one, so that a long line costs no square.
  Position position(size_t offset) const {
    if (offset < counted_to_) {
      counted_to_ = 0;
      counted_ = {};
    }
    for (; counted_to_ < offset; ++counted_to_) {
      const char byte = source_[counted_to_];
      if (byte == '\n') {
        ++counted_.line;
        counted_.column = 1;
      } else if ((static_cast<uint8_t>(byte) & 0xC0) != 0x80) {
        ++counted_.column;
      }
    }
    return counted_;
  }

  bool here(std::string_view text) const { return source_.compare(at_, text.size(), text) == 0; }

  void push(TokenKind kind, std::string text, size_t offset) {
    tokens_.push_back({kind, std::move(text), 0, 0, position(offset)});
  }

  void skip_space() {
    while (at_ < source_.size()) {
      size_t next = at_;
      if (!is_space(next_code_point(source_, next))) return;
      at_ = next;
    }
  }

  /// Moves behind the end of a tag that begins here; `mark` is %} }} or #}. What follows is cut by its sign.
  bool take_end(std::string_view mark, bool trim) {
    const size_t sign = here("-") || (trim && here("+")) ? 1 : 0;
    if (source_.compare(at_ + sign, mark.size(), mark) != 0) return false;
    const bool strip = sign == 1 && source_[at_] == '-';
    at_ += sign + mark.size();
    if (strip) {
      skip_space();
    } else if (sign == 0 && trim && here("\n")) {
      ++at_;
    }
    line_starting_ = source_[at_ - 1] == '\n';
    return true;
  }

  /// The text before a tag, cut by the tag's sign.
  void push_data(size_t begin, size_t end, char sign, bool is_variable) {
    std::string_view text = std::string_view(source_).substr(begin, end - begin);
    if (sign == '-') {
      while (!text.empty()) {
        size_t last = text.size() - 1;
        while (last > 0 && (static_cast<uint8_t>(text[last]) & 0xC0) == 0x80)
          --last;
        size_t next = last;
        if (!is_space(next_code_point(text, next))) break;
        text.remove_suffix(text.size() - last);
      }
    } else if (sign != '+' && !is_variable) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == text.npos ? 0 : newline + 1;
      bool blank = line > 0 || line_starting_;
      for (size_t i = line; blank && i < text.size();)
        blank = is_space(next_code_point(text, i));
      if (blank) text = text.substr(0, line);
    }
    if (!text.empty()) push(TokenKind::kData, std::string(text), begin);
  }

  void root() {
    const size_t begin = at_;
    size_t tag = source_.find('{', begin);
    while (tag != std::string::npos &&
           (tag + 1 >= source_.size() || std::string_view("{%#").find(source_[tag + 1]) == std::string_view::npos))
      tag = source_.find('{', tag + 1);
    if (tag == std::string::npos) {
      push(TokenKind::kData, source_.substr(begin), begin);
      at_ = source_.size();
      return;
    }
    const char kind = source_[tag + 1];
    const char after = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const char sign = after == '-' || after == '+' ? after : '\0';
    push_data(begin, tag, sign, kind == '{');
    at_ = tag + (sign != '\0' ? 3 : 2);
    line_starting_ = false;
    if (kind == '#') {
      comment(tag);
    } else if (kind == '{') {
      push(TokenKind::kVariableBegin, "", tag);
      tag_body(tag, "}}", false, TokenKind::kVariableEnd);
    } else if (!raw(tag)) {
      push(TokenKind::kBlockBegin, "", tag);
      tag_body(tag, "%}", true, TokenKind::kBlockEnd);
    }
  }

  void comment(size_t tag) {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail(position(tag), "a comment has no end");
    const bool has_sign = end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
    at_ = has_sign ? end - 1 : end;
    take_end("#}", true);
  }

  /// {% raw %} ... {% endraw %}, where that stands here.
  bool raw(size_t tag) {
    const size_t before = at_;
    skip_space();
    if (here("raw")) {
      at_ += 3;
      skip_space();
      // Behind it the text begins at once: a line break is not cut.
      if (here("-%}") || here("%}")) {
        take_end("%}", false);
        raw_body(tag);
        return true;
      }
    }
    at_ = before;
    return false;
  }

  void raw_body(size_t tag) {
    const size_t begin = at_;
    for (size_t end = source_.find("{%", begin); end != std::string::npos; end = source_.find("{%", end + 1)) {
      at_ = end + 2;
      const char sign = here("-") || here("+") ? source_[at_++] : '\0';
      skip_space();
      if (!here("endraw")) continue;
      at_ += 6;
      skip_space();
      const size_t close = at_;
      const bool was_starting = line_starting_;
      if (!take_end("%}", true)) continue;
      const bool now_starting = line_starting_;
      line_starting_ = was_starting;
      const size_t behind = at_;
      at_ = close;
      push_data(begin, end, sign, false);
      at_ = behind;
      line_starting_ = now_starting;
      return;
    }
    fail(position(tag), "raw has no endraw");
  }

  void tag_body(size_t tag, std::string_view end_mark, bool trim, TokenKind end_kind) {
    std::vector<std::pair<char, size_t>> open;
    while (true) {
      skip_space();
      if (at_ >= source_.size()) fail(position(tag), "a tag has no end");
      const size_t begin = at_;
      if (open.empty() && take_end(end_mark, trim)) return push(end_kind, "", begin);
      if (number() || name() || string()) continue;
      const auto* op = std::find_if(kOperators.begin(), kOperators.end(), [&](auto text) { return here(text); });
      if (op == kOperators.end()) fail(position(at_), "an unexpected character");
      balance(open, op->front());
      push(TokenKind::kOperator, std::string(*op), at_);
      at_ += op->size();
    }
  }

  void balance(std::vector<std::pair<char, size_t>>& open, char c) const {
    if (c == '{') open.emplace_back('}', at_);
    if (c == '(') open.emplace_back(')', at_);
    if (c == '[') open.emplace_back(']', at_);
    if (c != '}' && c != ')' && c != ']') return;
    if (open.empty()) fail(position(at_), fmt::format("unexpected '{}'", c));
    if (open.back().first != c)
      fail(position(at_), fmt::format("unexpected '{}', expected '{}'", c, open.back().first));
    open.pop_back();
  }

  /// Digits with single underscores between them, from `at`; the place behind them, or `at` where there are none.
  size_t digits(size_t at) const {
    size_t end = at;
    while (end < source_.size() &&
           (is_digit_char(source_[end]) ||
            (end > at && source_[end] == '_' && end + 1 < source_.size() && is_digit_char(source_[end + 1]))))
      ++end;
    return end;
  }

  bool number() {
    if (!is_digit_char(source_[at_])) return false;
    const bool behind_dot = at_ > 0 && source_[at_ - 1] == '.';
    const size_t whole = digits(at_);
    size_t end = whole;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit_char(source_[end + 1])) end = digits(end + 1);
    if (end < source_.size() && (source_[end] | 0x20) == 'e') {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
      if (exponent < source_.size() && is_digit_char(source_[exponent])) end = digits(exponent);
    }
    if (end > whole && !behind_dot) {
      real(end);
    } else {
      integer(whole);
    }
    return true;
  }

  std::string without_underscores(size_t end) const {
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    return text;
  }

  void real(size_t end) {
    push(TokenKind::kFloat, "", at_);
    tokens_.back().real = std::strtod(without_underscores(end).c_str(), nullptr);
    at_ = end;
  }

  void integer(size_t end) {
    const Position where = position(at_);
    int base = 10;
    size_t skip = 0;
    if (source_[at_] == '0') {
      const char mark = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : '\0';
      base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      const auto fits = [&](char c) {
        const char low = static_cast<char>(c | 0x20);
        return base == 16 ? is_digit_char(c) || (low >= 'a' && low <= 'f') : c >= '0' && c < '0' + base;
      };
      if (base == 10) {
        // Zeros only: 007 is two numbers, and then an error.
        end = at_ + 1;
        while (end < source_.size() &&
               (source_[end] == '0' || (source_[end] == '_' && end + 1 < source_.size() && source_[end + 1] == '0')))
          ++end;
      } else {
        skip = 2;
        end = at_ + 2;
        while (end < source_.size() &&
               (fits(source_[end]) || (source_[end] == '_' && end + 1 < source_.size() && fits(source_[end + 1]))))
          ++end;
        if (end == at_ + 2) {
          skip = 0;
          base = 10;
          end = at_ + 1;
        }
      }
    }
    const std::string text = without_underscores(end).substr(skip);
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc()) fail(where, "an integer does not fit 64 bits");
    tokens_.push_back({TokenKind::kInteger, "", value, 0, where});
    at_ = end;
  }

  bool name() {
    size_t end = at_;
    while (end < source_.size() && is_word(source_[end]))
      ++end;
    if (end == at_) return false;
    if (end < source_.size() && static_cast<uint8_t>(source_[end]) >= 0x80) {
      fail(position(end), "names have the letters a to z, digits and _ only");
    }
    push(TokenKind::kName, source_.substr(at_, end - at_), at_);
    at_ = end;
    return true;
  }

  bool string() {
    const char quote = source_[at_];
    if (quote != '\'' && quote != '"') return false;
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote)
      end += source_[end] == '\\' ? 2 : 1;
    const Position where = position(at_);
    if (end >= source_.size()) fail(where, "a string has no end");
    push(TokenKind::kString, unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1), where), at_);
    at_ = end + 1;
    return true;
  }

  const std::string source_;
  mutable size_t counted_to_ = 0;  // bytes
  mutable Position counted_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  bool line_starting_ = true;  // what was read last ended a line
};

}  // namespace

void fail(Position at, std::string message) {
  throw SyntaxError{std::move(message), at};
}

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(with_plain_lines(source)).run();
}

}  // namespace krait::chat_template
