#include "coordinator/chat_template/string_case.h"

#include "coordinator/chat_template/text_tools.h"

namespace krait::chat_template {
namespace {

void no_arguments(const Arguments& arguments, std::string_view name) {
  const Parameters given(arguments, name, {});
}

Value upper(Run& run, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "upper");
  return upper_of(run, self.as_text());
}

Value lower(Run& run, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "lower");
  return lower_of(run, self.as_text());
}

Value capitalize(Run& run, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "capitalize");
  return capitalized(run, self.as_text());
}

/// Each character in the case that `choose` gives it.
template <class Choose>
Value in_cases(Run& run, const Text& text, const Choose& choose) {
  TextBuilder out(run.budget());
  std::string piece;
  for (size_t at = 0; at < text.bytes.size();) {
    const size_t from = at;
    const char32_t c = next_code_point(text.bytes, at);
    run.budget().step();
    piece.clear();
    append_in_case(piece, c, choose(c));
    out.append(piece, trusted_at(text, from));
  }
  return Value::text(out.take());
}

Value title(Run& run, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "title");
  bool in_word = false;
  return in_cases(run, self.as_text(), [&](char32_t c) {
    const Case to = in_word ? Case::kLower : Case::kTitle;
    in_word = is_cased(c);
    return to;
  });
}

Value swapcase(Run& run, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "swapcase");
  return in_cases(run, self.as_text(), [](char32_t c) { return is_upper(c) ? Case::kLower : Case::kUpper; });
}

/// Whether the text has a character and all of them fit.
bool every(const Text& text, bool (*fits)(char32_t)) {
  for (size_t at = 0; at < text.bytes.size();) {
    if (!fits(next_code_point(text.bytes, at))) return false;
  }
  return !text.bytes.empty();
}

template <bool (*kFits)(char32_t)>
Value all_are(Run&, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "this method");
  return Value::boolean(every(self.as_text(), kFits));
}

bool is_alnum(char32_t c) {
  return is_alpha(c) || is_numeric(c) || is_digit(c);
}

Value isprintable(Run&, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "isprintable");
  return Value::boolean(self.bytes().empty() || every(self.as_text(), is_printable));
}

Value isascii(Run&, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "isascii");
  return Value::boolean(count_code_points(self.bytes()) == self.bytes().size());
}

Value isupper(Run&, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "isupper");
  return Value::boolean(text_is_upper(self.as_text()));
}

Value islower(Run&, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "islower");
  return Value::boolean(text_is_lower(self.as_text()));
}

Value istitle(Run&, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "istitle");
  bool in_word = false;
  bool any = false;
  for (size_t at = 0; at < self.bytes().size();) {
    const char32_t c = next_code_point(self.bytes(), at);
    const bool begins = is_upper(c) || is_title(c);
    if (begins == in_word && is_cased(c)) return Value::boolean(false);
    in_word = is_cased(c);
    any |= in_word;
  }
  return Value::boolean(any);
}

struct Width final {
  int64_t missing = 0;
  int64_t wanted = 0;
  Value fill;
};

Width width_of(const Value& self, const Arguments& arguments, std::string_view name) {
  const Parameters given(arguments, name, {"", ""}, 1);
  Width out;
  out.wanted = need_int(given.needed(0), name);
  const auto length = static_cast<int64_t>(count_code_points(self.bytes()));
  out.missing = out.wanted > length ? out.wanted - length : 0;
  out.fill = given.at(1) != nullptr ? given.needed(1) : Value::string(" ", true);
  if (count_code_points(need_text(out.fill, name).bytes) != 1) refuse("the fill must be one character");
  return out;
}

Value center(Run& run, const Value& self, const Arguments& arguments) {
  const Width width = width_of(self, arguments, "center");
  // As CPython rounds: the odd one goes left when both the rest and the width are odd.
  const int64_t left = width.missing / 2 + (width.missing & width.wanted & 1);
  return padded(run, self.as_text(), left, width.missing - left, width.fill.as_text());
}

Value ljust(Run& run, const Value& self, const Arguments& arguments) {
  const Width width = width_of(self, arguments, "ljust");
  return padded(run, self.as_text(), 0, width.missing, width.fill.as_text());
}

Value rjust(Run& run, const Value& self, const Arguments& arguments) {
  const Width width = width_of(self, arguments, "rjust");
  return padded(run, self.as_text(), width.missing, 0, width.fill.as_text());
}

Value zfill(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "zfill", {""}, 1);
  const Text& text = self.as_text();
  const int64_t wanted = need_int(given.needed(0), "zfill");
  const auto length = static_cast<int64_t>(count_code_points(text.bytes));
  const int64_t missing = wanted > length ? wanted - length : 0;
  const size_t sign = text.bytes.starts_with('-') || text.bytes.starts_with('+') ? 1 : 0;
  TextBuilder out(run.budget());
  out.append(text, 0, sign);
  for (int64_t i = 0; i < missing; ++i)
    out.append("0");
  out.append(text, sign, text.bytes.size());
  return Value::text(out.take());
}

constexpr MethodRow kRows[] = {
    {"upper", upper},
    {"lower", lower},
    {"capitalize", capitalize},
    {"title", title},
    {"swapcase", swapcase},
    {"isspace", all_are<is_space>},
    {"isalpha", all_are<is_alpha>},
    {"isdecimal", all_are<is_decimal>},
    {"isdigit", all_are<is_digit>},
    {"isnumeric", all_are<is_numeric>},
    {"isalnum", all_are<is_alnum>},
    {"isprintable", isprintable},
    {"isascii", isascii},
    {"isupper", isupper},
    {"islower", islower},
    {"istitle", istitle},
    {"center", center},
    {"ljust", ljust},
    {"rjust", rjust},
    {"zfill", zfill},
};

/// Whether there is a cased character and each is of that case.
bool cased_as(const Text& text, bool (*fits)(char32_t)) {
  bool any = false;
  for (size_t at = 0; at < text.bytes.size();) {
    const char32_t c = next_code_point(text.bytes, at);
    if (!is_cased(c)) continue;
    if (!fits(c)) return false;
    any = true;
  }
  return any;
}

}  // namespace

std::span<const MethodRow> string_case_methods() {
  return kRows;
}

bool text_is_upper(const Text& text) {
  return cased_as(text, is_upper);
}

bool text_is_lower(const Text& text) {
  return cased_as(text, is_lower);
}

}  // namespace krait::chat_template
