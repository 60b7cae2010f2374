// Methods of Python's str that find, cut and join. Every part keeps the trust that its bytes had.
#include <algorithm>

#include "coordinator/chat_template/format.h"
#include "coordinator/chat_template/python_text.h"
#include "coordinator/chat_template/string_case.h"
#include "coordinator/chat_template/text_tools.h"

namespace krait::chat_template {
namespace {

const Text& text_of(const Value& self) {
  return self.as_text();
}

/// The part of a text that optional start and end indices leave; nothing where start is beyond the end.
std::optional<ByteRange> window(const Text& text, const Value* start, const Value* end) {
  const auto length = static_cast<int64_t>(count_code_points(text.bytes));
  const auto index = [&](const Value* value, int64_t otherwise) {
    if (value == nullptr || value->is(Kind::kNone)) return otherwise;
    const int64_t at = need_int(*value, "an index");
    return at < 0 ? std::max<int64_t>(0, at + length) : at;
  };
  const int64_t first = index(start, 0);
  const int64_t last = std::min(index(end, length), length);
  if (first > last) return std::nullopt;
  return ByteRange{byte_of_code_point(text.bytes, static_cast<size_t>(first)),
                   byte_of_code_point(text.bytes, static_cast<size_t>(last))};
}

/// Index of the first or last place of a text within another, or -1.
int64_t search(Run& run, const Value& self, const Arguments& arguments, std::string_view name, bool from_end) {
  const Parameters given(arguments, name, {"", "", ""}, 1);
  const Text& text = text_of(self);
  const Text& wanted = need_text(given.needed(0), name);
  const auto part = window(text, given.at(1), given.at(2));
  if (!part) return -1;
  const std::string_view in = std::string_view(text.bytes).substr(part->begin, part->end - part->begin);
  const size_t found =
      from_end ? find_last_text(run.budget(), in, wanted.bytes) : find_text(run.budget(), in, wanted.bytes);
  if (found == in.npos) return -1;
  return static_cast<int64_t>(count_code_points(std::string_view(text.bytes).substr(0, part->begin + found)));
}

Value find(Run& run, const Value& self, const Arguments& arguments) {
  return Value::integer(search(run, self, arguments, "find", false));
}

Value rfind(Run& run, const Value& self, const Arguments& arguments) {
  return Value::integer(search(run, self, arguments, "rfind", true));
}

Value must_find(int64_t found) {
  if (found < 0) refuse("substring not found");
  return Value::integer(found);
}

Value index(Run& run, const Value& self, const Arguments& arguments) {
  return must_find(search(run, self, arguments, "index", false));
}

Value rindex(Run& run, const Value& self, const Arguments& arguments) {
  return must_find(search(run, self, arguments, "rindex", true));
}

Value count(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "count", {"", "", ""}, 1);
  const Text& text = text_of(self);
  const std::string& wanted = need_text(given.needed(0), "count").bytes;
  const auto part = window(text, given.at(1), given.at(2));
  if (!part) return Value::integer(0);
  const std::string_view in = std::string_view(text.bytes).substr(part->begin, part->end - part->begin);
  if (wanted.empty()) return Value::integer(static_cast<int64_t>(count_code_points(in)) + 1);
  int64_t found = 0;
  for (size_t at = find_text(run.budget(), in, wanted); at != in.npos;
       at = find_text(run.budget(), in, wanted, at + wanted.size())) {
    run.budget().step();
    ++found;
  }
  return Value::integer(found);
}

Value starts_or_ends(const Value& self, const Arguments& arguments, bool at_end) {
  const Parameters given(arguments, at_end ? "endswith" : "startswith", {"", "", ""}, 1);
  const Text& text = text_of(self);
  const auto part = window(text, given.at(1), given.at(2));
  if (!part) return Value::boolean(false);
  const std::string_view in = std::string_view(text.bytes).substr(part->begin, part->end - part->begin);
  const auto fits = [&](const Value& affix) {
    const std::string& bytes = need_text(affix, at_end ? "endswith" : "startswith").bytes;
    return at_end ? in.ends_with(bytes) : in.starts_with(bytes);
  };
  if (!given.needed(0).is(Kind::kTuple)) return Value::boolean(fits(given.needed(0)));
  const auto& affixes = given.needed(0).items();
  return Value::boolean(std::any_of(affixes.begin(), affixes.end(), fits));
}

Value startswith(Run&, const Value& self, const Arguments& arguments) {
  return starts_or_ends(self, arguments, false);
}

Value endswith(Run&, const Value& self, const Arguments& arguments) {
  return starts_or_ends(self, arguments, true);
}

Value strip_by(Run& run, const Value& self, const Arguments& arguments, bool left, bool right) {
  const Parameters given(arguments, "strip", {""});
  const ByteRange rest = stripped(run.budget(), text_of(self), given.text(0), left, right);
  return part_of(run, text_of(self), rest.begin, rest.end);
}

Value strip(Run& run, const Value& self, const Arguments& arguments) {
  return strip_by(run, self, arguments, true, true);
}

Value lstrip(Run& run, const Value& self, const Arguments& arguments) {
  return strip_by(run, self, arguments, true, false);
}

Value rstrip(Run& run, const Value& self, const Arguments& arguments) {
  return strip_by(run, self, arguments, false, true);
}

/// Cuts at whitespace, from the front; what is left after `most` cuts keeps its own.
std::vector<ByteRange> split_at_space(const Text& text, int64_t most) {
  std::vector<ByteRange> parts;
  const std::string& bytes = text.bytes;
  size_t at = 0;
  while (true) {
    size_t next = at;
    while (next < bytes.size() && is_space(next_code_point(bytes, next)))
      at = next;
    if (at >= bytes.size()) return parts;
    if (most >= 0 && static_cast<int64_t>(parts.size()) >= most) {
      parts.push_back({at, bytes.size()});
      return parts;
    }
    const size_t begin = at;
    next = at;
    while (next < bytes.size() && !is_space(next_code_point(bytes, next)))
      at = next;
    parts.push_back({begin, at});
  }
}

std::vector<ByteRange> split_at_text(Run& run, const Text& text, const std::string& at, int64_t most) {
  std::vector<ByteRange> parts;
  size_t begin = 0;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t found = find_text(run.budget(), text.bytes, at, begin);
    if (found == std::string::npos) break;
    parts.push_back({begin, found});
    begin = found + at.size();
  }
  parts.push_back({begin, text.bytes.size()});
  return parts;
}

/// The same from the end.
std::vector<ByteRange> rsplit_at_text(Run& run, const Text& text, const std::string& at, int64_t most) {
  std::vector<ByteRange> parts;
  size_t end = text.bytes.size();
  while ((most < 0 || static_cast<int64_t>(parts.size()) < most) && end >= at.size()) {
    const size_t found = find_last_text(run.budget(), std::string_view(text.bytes).substr(0, end), at);
    if (found == std::string::npos) break;
    parts.push_back({found + at.size(), end});
    end = found;
  }
  parts.push_back({0, end});
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<ByteRange> rsplit_at_space(const Text& text, int64_t most) {
  auto parts = split_at_space(text, -1);
  if (most < 0 || static_cast<int64_t>(parts.size()) <= most) return parts;
  const auto rest = parts.size() - static_cast<size_t>(most);  // words that stay together
  const size_t end = parts[rest - 1].end;
  parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(rest));
  parts.insert(parts.begin(), ByteRange{0, end});
  return parts;
}

Value parts_of(Run& run, const Text& text, const std::vector<ByteRange>& parts) {
  std::vector<Value> out;
  run.budget().take(parts.size() * (sizeof(Value) + sizeof(ByteRange)));
  out.reserve(parts.size());
  for (const ByteRange& part : parts)
    out.push_back(part_of(run, text, part.begin, part.end));
  return Value::list(std::move(out));
}

Value split_by(Run& run, const Value& self, const Arguments& arguments, bool from_end) {
  const Parameters given(arguments, from_end ? "rsplit" : "split", {"sep", "maxsplit"});
  const Text& text = text_of(self);
  const int64_t most = given.integer(1, -1);
  const Text* at = given.text(0);
  if (at == nullptr) return parts_of(run, text, from_end ? rsplit_at_space(text, most) : split_at_space(text, most));
  if (at->bytes.empty()) refuse("empty separator");
  return parts_of(run, text,
                  from_end ? rsplit_at_text(run, text, at->bytes, most) : split_at_text(run, text, at->bytes, most));
}

Value split(Run& run, const Value& self, const Arguments& arguments) {
  return split_by(run, self, arguments, false);
}

Value rsplit(Run& run, const Value& self, const Arguments& arguments) {
  return split_by(run, self, arguments, true);
}

Value splitlines(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "splitlines", {"keepends"});
  return parts_of(run, text_of(self), lines_of(text_of(self).bytes, given.flag(0, false)));
}

Value partition_at(Run& run, const Value& self, const Arguments& arguments, bool from_end) {
  const Parameters given(arguments, "partition", {""}, 1);
  const Text& text = text_of(self);
  const std::string& at = need_text(given.needed(0), "partition").bytes;
  if (at.empty()) refuse("empty separator");
  const size_t found =
      from_end ? find_last_text(run.budget(), text.bytes, at) : find_text(run.budget(), text.bytes, at);
  const Value nothing = Value::string("", true);
  if (found == std::string::npos) {
    return from_end ? Value::tuple({nothing, nothing, self}) : Value::tuple({self, nothing, nothing});
  }
  return Value::tuple({part_of(run, text, 0, found), part_of(run, text, found, found + at.size()),
                       part_of(run, text, found + at.size(), text.bytes.size())});
}

Value partition(Run& run, const Value& self, const Arguments& arguments) {
  return partition_at(run, self, arguments, false);
}

Value rpartition(Run& run, const Value& self, const Arguments& arguments) {
  return partition_at(run, self, arguments, true);
}

Value removeprefix(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "removeprefix", {""}, 1);
  const std::string& affix = need_text(given.needed(0), "removeprefix").bytes;
  if (!self.bytes().starts_with(affix)) return self;
  return part_of(run, text_of(self), affix.size(), self.bytes().size());
}

Value removesuffix(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "removesuffix", {""}, 1);
  const std::string& affix = need_text(given.needed(0), "removesuffix").bytes;
  if (!self.bytes().ends_with(affix)) return self;
  return part_of(run, text_of(self), 0, self.bytes().size() - affix.size());
}

Value replace(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "replace", {"", "", ""}, 2);
  return replaced(run, text_of(self), need_text(given.needed(0), "replace"), need_text(given.needed(1), "replace"),
                  given.integer(2, -1));
}

Value join(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "join", {""}, 1);
  TextBuilder out(run.budget());
  Cursor cursor(run.budget(), given.needed(0));
  bool first = true;
  for (Value item; cursor.next(item); first = false) {
    if (!first) out.append(text_of(self));
    out.append(need_text(item, "join"));
  }
  return Value::text(out.take());
}

constexpr MethodRow kRows[] = {
    {"find", find},
    {"rfind", rfind},
    {"index", index},
    {"rindex", rindex},
    {"count", count},
    {"startswith", startswith},
    {"endswith", endswith},
    {"strip", strip},
    {"lstrip", lstrip},
    {"rstrip", rstrip},
    {"split", split},
    {"rsplit", rsplit},
    {"splitlines", splitlines},
    {"partition", partition},
    {"rpartition", rpartition},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"replace", replace},
    {"join", join},
    {"format", format_method},
    {"format_map", format_map_method},
};

}  // namespace

bool is_unsupported_method(std::string_view name) {
  static constexpr std::string_view kNames[] = {"casefold",  "encode",    "expandtabs", "isidentifier",
                                                "maketrans", "translate", "fromkeys"};
  return is_one_of(kNames, name);
}

std::span<const MethodRow> string_methods() {
  static const std::vector<MethodRow> all = [] {
    std::vector<MethodRow> rows(std::begin(kRows), std::end(kRows));
    const auto more = string_case_methods();
    rows.insert(rows.end(), more.begin(), more.end());
    return rows;
  }();
  return all;
}

}  // namespace krait::chat_template
