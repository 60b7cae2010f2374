#include "coordinator/chat_template/text_tools.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

namespace krait::chat_template {
namespace {

/// The code point before `at` > 0; `at` moves to its first byte.
char32_t previous_code_point(std::string_view text, size_t& at) {
  do {
    --at;
  } while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  size_t begin = at;
  return next_code_point(text, begin);
}

/// Whether the sigma at [begin, end) ends a word: a cased letter before it and none behind, marks aside.
bool is_final_sigma(std::string_view text, size_t begin, size_t end) {
  while (begin > 0) {
    const char32_t c = previous_code_point(text, begin);
    if (is_case_ignorable(c)) continue;
    if (!is_cased(c)) return false;
    while (end < text.size()) {
      const char32_t next = next_code_point(text, end);
      if (!is_case_ignorable(next)) return !is_cased(next);
    }
    return true;
  }
  return false;
}

std::string_view without_space(std::string_view text) {
  size_t begin = 0;
  while (begin < text.size()) {
    size_t next = begin;
    if (!is_space(next_code_point(text, next))) break;
    begin = next;
  }
  size_t end = text.size();
  while (end > begin) {
    size_t before = end;
    if (!is_space(previous_code_point(text, before))) break;
    end = before;
  }
  return text.substr(begin, end - begin);
}

/// Without the underscores that Python lets stand between digits; nothing where they stand elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto is_digit = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) return std::nullopt;
  }
  return out;
}

}  // namespace

void append_lower(Run& run, TextBuilder& out, const Text& text, size_t begin, size_t end) {
  constexpr char32_t kSigma = 0x3A3;
  std::string piece;
  for (size_t at = begin; at < end;) {
    const size_t from = at;
    const char32_t c = next_code_point(text.bytes, at);
    run.budget().step();
    piece.clear();
    if (c == kSigma) {
      append_code_point(piece, is_final_sigma(text.bytes, from, at) ? 0x3C2 : 0x3C3);
    } else {
      append_in_case(piece, c, Case::kLower);
    }
    out.append(piece, trusted_at(text, from));
  }
}

Value part_of(Run& run, const Text& text, size_t begin, size_t end) {
  run.budget().take(sizeof(Text));
  TextBuilder out(run.budget());
  out.append(text, begin, end);
  return Value::text(out.take());
}

ByteRange stripped(Budget& budget, const Text& text, const Text* chars, bool left, bool right) {
  const std::string& bytes = text.bytes;
  const auto goes = [&](size_t begin, size_t end, char32_t c) {
    if (chars == nullptr) return is_space(c);
    budget.walk(chars->bytes.size());
    return chars->bytes.find(bytes.substr(begin, end - begin)) != std::string::npos;
  };
  ByteRange out{0, bytes.size()};
  while (left && out.begin < out.end) {
    size_t next = out.begin;
    const char32_t c = next_code_point(bytes, next);
    if (!goes(out.begin, next, c)) break;
    out.begin = next;
  }
  while (right && out.end > out.begin) {
    size_t before = out.end;
    const char32_t c = previous_code_point(bytes, before);
    if (!goes(before, out.end, c)) break;
    out.end = before;
  }
  return out;
}

std::vector<ByteRange> lines_of(std::string_view text, bool keep_ends) {
  std::vector<ByteRange> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = next_code_point(text, at);
    if (!is_line_break(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back({begin, keep_ends ? at : end});
    begin = at;
  }
  if (begin < text.size()) lines.push_back({begin, text.size()});
  return lines;
}

size_t find_text(Budget& budget, std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size()) return text.npos;
  // Unlike std::string's, memmem is never quadratic.
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  const size_t at = found == nullptr ? text.npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
  budget.walk(std::min(at, text.size()) - from + wanted.size());
  return at;
}

size_t find_last_text(Budget& budget, std::string_view text, std::string_view wanted) {
  constexpr size_t kShort = 64;
  if (wanted.size() <= kShort) {
    const size_t at = text.rfind(wanted);
    budget.walk((text.size() - (at == text.npos ? 0 : at)) * wanted.size());
    return at;
  }
  const std::string backwards(text.rbegin(), text.rend());
  const size_t at = find_text(budget, backwards, std::string(wanted.rbegin(), wanted.rend()));
  budget.walk(text.size());
  return at == text.npos ? at : text.size() - at - wanted.size();
}

Value replaced(Run& run, const Text& text, const Text& old, const Text& with, int64_t most) {
  TextBuilder out(run.budget());
  const std::string& bytes = text.bytes;
  size_t plain = 0;
  size_t from = 0;
  for (int64_t done = 0; most < 0 || done < most; ++done) {
    run.budget().step();
    const size_t found = find_text(run.budget(), bytes, old.bytes, from);
    if (found == bytes.npos) break;
    out.append(text, plain, found);
    out.append(with);
    plain = found + old.bytes.size();
    from = plain;
    if (!old.bytes.empty()) continue;
    // Nothing is found before every character, and once at the end.
    if (found == bytes.size()) break;
    from = found + code_point_bytes(bytes[found]);
  }
  out.append(text, plain, bytes.size());
  return Value::text(out.take());
}

Value upper_of(Run& run, const Text& text) {
  TextBuilder out(run.budget());
  std::string piece;
  for (size_t at = 0; at < text.bytes.size();) {
    const size_t from = at;
    const char32_t c = next_code_point(text.bytes, at);
    run.budget().step();
    piece.clear();
    append_in_case(piece, c, Case::kUpper);
    out.append(piece, trusted_at(text, from));
  }
  return Value::text(out.take());
}

Value lower_of(Run& run, const Text& text) {
  TextBuilder out(run.budget());
  append_lower(run, out, text, 0, text.bytes.size());
  return Value::text(out.take());
}

Value capitalized(Run& run, const Text& text) {
  TextBuilder out(run.budget());
  size_t at = 0;
  if (!text.bytes.empty()) {
    std::string piece;
    append_in_case(piece, next_code_point(text.bytes, at), Case::kTitle);
    out.append(piece, trusted_at(text, 0));
  }
  append_lower(run, out, text, at, text.bytes.size());
  return Value::text(out.take());
}

Value escaped(Run& run, const Text& text) {
  static constexpr std::pair<char, std::string_view> kSpelled[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
  TextBuilder out(run.budget());
  size_t from = 0;
  for (size_t at = 0; at < text.bytes.size(); ++at) {
    for (const auto& [sign, spelled] : kSpelled) {
      if (text.bytes[at] != sign) continue;
      run.budget().step();
      out.append(text, from, at);
      out.append(spelled, trusted_at(text, at));
      from = at + 1;
    }
  }
  out.append(text, from, text.bytes.size());
  return Value::text(out.take());
}

Value padded(Run& run, const Text& text, int64_t left, int64_t right, const Text& fill) {
  TextBuilder out(run.budget());
  for (int64_t i = 0; i < left; ++i) {
    run.budget().step();
    out.append(fill);
  }
  out.append(text);
  for (int64_t i = 0; i < right; ++i) {
    run.budget().step();
    out.append(fill);
  }
  return Value::text(out.take());
}

std::optional<int64_t> parse_int(std::string_view text, int base) {
  text = without_space(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const auto prefixed = [&](char small, int of) {
    return (base == of || base == 0) && text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == small;
  };
  const bool leading_zero = text.size() > 1 && text[0] == '0';
  for (const auto& [letter, of] : {std::pair{'x', 16}, {'o', 8}, {'b', 2}}) {
    if (!prefixed(letter, of)) continue;
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
    base = of;
    break;
  }
  if (base == 0) {
    if (leading_zero && text.find_first_not_of("0_") != text.npos) return std::nullopt;
    base = 10;
  }
  const auto digits = without_underscores(text);
  if (!digits || digits->empty()) return std::nullopt;
  const std::string signed_digits = (negative ? "-" : "") + *digits;
  int64_t out = 0;
  const char* end = signed_digits.data() + signed_digits.size();
  const auto [stop, error] = std::from_chars(signed_digits.data(), end, out, base);
  if (error == std::errc::result_out_of_range) refuse("an integer does not fit 64 bits");
  if (error != std::errc() || stop != end || digits->starts_with('-')) return std::nullopt;
  return out;
}

std::optional<double> parse_float(std::string_view text) {
  text = without_space(text);
  auto digits = without_underscores(text);
  if (!digits || digits->empty()) return std::nullopt;
  std::string_view rest = *digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty() || rest[0] == '-' || rest[0] == '+') return std::nullopt;
  double out = 0;
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), out);
  if (stop != rest.data() + rest.size() || error == std::errc::invalid_argument) return std::nullopt;
  if (std::isnan(out) && rest.size() != 3) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    // Too large or too small for a double: Python takes the nearest, which from_chars does not tell.
    out = std::strtod(std::string(rest).c_str(), nullptr);
  }
  return negative ? -out : out;
}

}  // namespace krait::chat_template
