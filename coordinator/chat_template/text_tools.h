// What string methods and filters share.
#pragma once

#include <functional>
#include <vector>

#include "coordinator/chat_template/run.h"
#include "coordinator/chat_template/unicode.h"

namespace krait::chat_template {

/// Bytes [begin, end) of a text as a value.
Value part_of(Run& run, const Text& text, size_t begin, size_t end);

/// The bytes of `text` that are left without whitespace, or without the characters of `chars` where that is given.
ByteRange stripped(Budget& budget, const Text& text, const Text* chars, bool left, bool right);

/// Lines as str.splitlines() cuts them.
std::vector<ByteRange> lines_of(std::string_view text, bool keep_ends);

/// Where `wanted` begins in `text` at or behind `from`, or npos, in time that grows with the sum of their lengths.
size_t find_text(Budget& budget, std::string_view text, std::string_view wanted, size_t from = 0);
/// The last place where it begins.
size_t find_last_text(Budget& budget, std::string_view text, std::string_view wanted);

/// Python's str.replace; `most` < 0: all.
Value replaced(Run& run, const Text& text, const Text& old, const Text& with, int64_t most);

/// Appends characters of [begin, end) in lower case.
void append_lower(Run& run, TextBuilder& out, const Text& text, size_t begin, size_t end);
Value upper_of(Run& run, const Text& text);
Value lower_of(Run& run, const Text& text);
/// The first character in title case, the others in lower case.
Value capitalized(Run& run, const Text& text);

/// With the signs of HTML spelled as it wants them: &lt; for <.
Value escaped(Run& run, const Text& text);

/// Spaces, or other text, on both sides until `width` characters are there.
Value padded(Run& run, const Text& text, int64_t left, int64_t right, const Text& fill);

/// The whole number that a text spells as Python's int() reads it, in `base`; nothing where it spells none.
std::optional<int64_t> parse_int(std::string_view text, int base);
std::optional<double> parse_float(std::string_view text);

}  // namespace krait::chat_template
