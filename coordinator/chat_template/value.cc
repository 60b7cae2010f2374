#include "coordinator/chat_template/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/limits.h"
#include "coordinator/chat_template/python_text.h"
#include "coordinator/chat_template/unicode.h"

namespace krait::chat_template {
namespace {

constexpr size_t kIndexFrom = 16;  // entries; fewer are searched one by one
constexpr size_t kNowhere = SIZE_MAX;

/// An int and a double in Python's order, exactly: beyond 2^53 a double cannot hold every int.
int compare_mixed(int64_t a, double b) {
  if (std::isnan(b)) return 2;
  if (b >= 0x1p63) return -1;
  if (b < -0x1p63) return 1;
  const auto whole = static_cast<int64_t>(b);
  if (a != whole) return a < whole ? -1 : 1;
  const double rest = b - static_cast<double>(whole);
  return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

/// -1, 0, 1, or 2 where a NaN makes every comparison false.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
  if (a.is_whole()) return compare_mixed(a.as_int(), b.as_double());
  if (b.is_whole()) {
    const int reversed = compare_mixed(b.as_int(), a.as_double());
    return reversed == 2 ? 2 : -reversed;
  }
  const double x = a.as_double();
  const double y = b.as_double();
  if (std::isnan(x) || std::isnan(y)) return 2;
  return x < y ? -1 : x > y ? 1 : 0;
}

constexpr int kMaxKeyItems = 1000;  // of a tuple that is a dict's key

bool same(Budget* budget, const Value& a, const Value& b);

bool equal_items(Budget* budget, const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Value& one, const Value& other) { return same(budget, one, other); });
}

bool equal_dicts(Budget* budget, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    const Value* other = b.find(entry.first);
    return other != nullptr && same(budget, entry.second, *other);
  });
}

bool equal_ranges(const Range& a, const Range& b) {
  return a.length == b.length && (a.length == 0 || a.start == b.start) && (a.length <= 1 || a.step == b.step);
}

}  // namespace

Value Value::boolean(bool value) {
  Value out(Kind::kBool);
  out.number_.integer = value ? 1 : 0;
  return out;
}

Value Value::integer(int64_t value) {
  Value out(Kind::kInt);
  out.number_.integer = value;
  return out;
}

Value Value::real(double value) {
  Value out(Kind::kFloat);
  out.number_.real = value;
  return out;
}

Value Value::string(std::string bytes, bool trusted) {
  return text(std::make_shared<Text>(std::move(bytes), trusted));
}

Value Value::list(std::vector<Value> items) {
  auto list = std::make_shared<List>();
  list->depth = nested_depth(items);
  list->items = std::move(items);
  return Value(Kind::kList, std::move(list));
}

Value Value::tuple(std::vector<Value> items) {
  Value out = list(std::move(items));
  out.kind_ = Kind::kTuple;
  return out;
}

Value Value::dict(std::shared_ptr<Dict> dict) {
  int depth = 0;
  for (const auto& [key, value] : dict->entries) {
    if (value.object_) depth = std::max(depth, value.object_->depth);
    if (key.object_) depth = std::max(depth, key.object_->depth);
  }
  if (++depth > limits::kMaxTemplateNesting) refuse("values nest too deeply");
  dict->depth = depth;
  return Value(Kind::kDict, std::move(dict));
}

const std::vector<Value>& Value::items() const {
  return static_cast<const List&>(*object_).items;
}

const Dict& Value::as_dict() const {
  return static_cast<const Dict&>(*object_);
}

int nested_depth(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) {
    if (item.shared()) depth = std::max(depth, item.shared()->depth);
  }
  if (++depth > limits::kMaxTemplateNesting) refuse("values nest too deeply");
  return depth;
}

size_t Dict::place(const Value& key) const {
  if (entries.size() >= kIndexFrom) {
    const auto found = index_.find(hash_key(key));
    return found == index_.end() ? kNowhere : found->second;
  }
  if (!key.is_string()) hash_key(key);  // refuses what has none
  for (size_t i = 0; i < entries.size(); ++i) {
    if (same(nullptr, entries[i].first, key)) return i;
  }
  return kNowhere;
}

const Value* Dict::find(const Value& key) const {
  const size_t at = place(key);
  return at == kNowhere ? nullptr : &entries[at].second;
}

const Value* Dict::find(std::string_view key) const {
  if (entries.size() >= kIndexFrom) return find(Value::string(std::string(key), true));
  for (const auto& [name, value] : entries) {
    if (name.is_string() && name.bytes() == key) return &value;
  }
  return nullptr;
}

void Dict::set(Value key, Value value) {
  const size_t at = place(key);
  if (at != kNowhere) {
    entries[at].second = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
  if (entries.size() < kIndexFrom) return;
  if (index_.empty()) {
    for (size_t i = 0; i < entries.size(); ++i)
      index_.emplace(hash_key(entries[i].first), i);
  } else {
    index_.emplace(hash_key(entries.back().first), entries.size() - 1);
  }
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  for (auto& [key, old] : attributes) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  attributes.emplace_back(name, std::move(value));
}

std::string_view type_name(const Value& value) {
  static constexpr std::array<std::string_view, 16> kNames = {
      "undefined", "None",  "bool",      "int",       "float",     "str",  "list",   "tuple",
      "dict",      "range", "dict view", "generator", "namespace", "loop", "cycler", "function"};
  return kNames[static_cast<size_t>(value.kind())];
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kFloat:
      return value.as_double() != 0;
    default:
      break;
  }
  if (value.is_whole()) return value.as_int() != 0;
  if (value.is_string()) return !value.bytes().empty();
  return length_of(value).value_or(1) != 0;
}

namespace {

/// Without a budget for keys of dicts: what has a hash_key is small, or a text.
bool same(Budget* budget, const Value& a, const Value& b) {
  if (budget != nullptr) budget->step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      if (budget != nullptr && a.bytes().size() == b.bytes().size()) budget->walk(a.bytes().size());
      return a.bytes() == b.bytes();
    case Kind::kList:
    case Kind::kTuple:
      return equal_items(budget, a.items(), b.items());
    case Kind::kDict:
      return equal_dicts(budget, a.as_dict(), b.as_dict());
    case Kind::kRange:
      return equal_ranges(a.as<Range>(), b.as<Range>());
    case Kind::kView:
      if (a.shared() != b.shared()) refuse("views of dicts cannot be compared here");
      return true;
    default:
      return a.shared() == b.shared();
  }
}

/// `items_left`: of tuples inside tuples, which may share them and be many times larger than their memory.
std::string key_of(const Value& value, int& items_left) {
  if (--items_left < 0) refuse("a key has too many items");
  switch (value.kind()) {
    case Kind::kString:
      return "s" + value.bytes();
    case Kind::kNone:
      return "n";
    case Kind::kUndefined:
      return "u";
    case Kind::kBool:
    case Kind::kInt:
      return fmt::format("i{}", value.as_int());
    case Kind::kFloat: {
      const double number = value.as_double();
      const bool whole = std::nearbyint(number) == number && std::abs(number) < 0x1p63;
      return whole ? fmt::format("i{}", static_cast<int64_t>(number)) : "f" + float_repr(number);
    }
    case Kind::kTuple: {
      std::string out = "t";
      for (const Value& item : value.items()) {
        const std::string part = key_of(item, items_left);
        out += fmt::format("{}:{}", part.size(), part);
      }
      return out;
    }
    case Kind::kList:
    case Kind::kDict:
    case Kind::kView:
      refuse(fmt::format("unhashable type: {}", type_name(value)));
    default:
      return fmt::format("o{}", static_cast<const void*>(value.shared().get()));
  }
}

}  // namespace

bool equal(Budget& budget, const Value& a, const Value& b) {
  return same(&budget, a, b);
}

void walk(Budget& budget, const Value& value) {
  if (value.is_string()) budget.walk(value.bytes().size());
}

bool less(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == -1;
  if (a.is_string() && b.is_string()) {
    budget.walk(std::min(a.bytes().size(), b.bytes().size()));
    return a.bytes() < b.bytes();  // UTF-8 sorts as its code points do
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    const auto& x = a.items();
    const auto& y = b.items();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equal(budget, x[i], y[i])) return less(budget, x[i], y[i]);
    return x.size() < y.size();
  }
  refuse(fmt::format("'<' is not supported between {} and {}", type_name(a), type_name(b)));
}

std::string hash_key(const Value& value) {
  int items_left = kMaxKeyItems;
  return key_of(value, items_left);
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kGenerator:
      return true;
    default:
      return false;
  }
}

std::optional<int64_t> length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<int64_t>(count_code_points(value.bytes()));
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.items().size());
    case Kind::kDict:
      return static_cast<int64_t>(value.as_dict().entries.size());
    case Kind::kView:
      return length_of(value.as<View>().dict);
    case Kind::kRange:
      return value.as<Range>().length;
    default:
      return std::nullopt;
  }
}

Cursor::Cursor(Budget& budget, const Value& value) : budget_(budget), value_(value) {
  if (!is_iterable(value)) refuse(fmt::format("{} is not iterable", type_name(value)));
}

bool Cursor::next(Value& item) {
  budget_.step();
  switch (value_.kind()) {
    case Kind::kString: {
      const Text& text = value_.as_text();
      if (at_ >= text.bytes.size()) return false;
      const size_t end = at_ + code_point_bytes(text.bytes[at_]);
      budget_.take(sizeof(Text));
      item = Value::string(text.bytes.substr(at_, end - at_), trusted_at(text, at_));
      at_ = end;
      return true;
    }
    case Kind::kList:
    case Kind::kTuple:
      if (at_ >= value_.items().size()) return false;
      item = value_.items()[at_++];
      return true;
    case Kind::kDict:
    case Kind::kView: {
      const bool is_dict = value_.is(Kind::kDict);
      const Dict& dict = is_dict ? value_.as_dict() : value_.as<View>().dict.as_dict();
      const ViewOf of = is_dict ? ViewOf::kKeys : value_.as<View>().of;
      if (at_ >= dict.entries.size()) return false;
      const auto& [key, entry] = dict.entries[at_++];
      item = of == ViewOf::kKeys ? key : of == ViewOf::kValues ? entry : Value::tuple({key, entry});
      if (of == ViewOf::kItems) budget_.take(sizeof(List) + 2 * sizeof(Value));
      return true;
    }
    case Kind::kRange: {
      const auto& range = value_.as<Range>();
      if (static_cast<int64_t>(at_) >= range.length) return false;
      item = Value::integer(range.at(static_cast<int64_t>(at_++)));
      return true;
    }
    case Kind::kGenerator:
      return value_.as<Generator>().next(item);
    default:
      return false;
  }
}

std::vector<Value> collect(Budget& budget, const Value& value) {
  if (value.is_sequence()) {
    budget.take(value.items().size() * sizeof(Value));
    return value.items();
  }
  std::vector<Value> items;
  Cursor cursor(budget, value);
  for (Value item; cursor.next(item);) {
    budget.take(sizeof(Value));
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace krait::chat_template
