// What a template computes with: Python's values, as far as templates have them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/chat_template/text.h"

namespace krait::chat_template {

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kView,       // keys(), values() or items() of a dict
  kGenerator,  // what map, select and others give: can be walked once, has no length
  kNamespace,
  kLoop,
  kCycler,
  kFunction,
};

struct List;
struct Dict;

/// A value; cheap to copy. Containers and texts do not change once a value refers to them.
class Value final {
 public:
  Value() = default;  // undefined, of unknown origin
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool value);
  static Value integer(int64_t value);
  static Value real(double value);
  static Value string(std::string bytes, bool trusted);
  static Value text(std::shared_ptr<Text> text) { return Value(Kind::kString, std::move(text)); }
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value dict(std::shared_ptr<Dict> dict);
  static Value object(Kind kind, std::shared_ptr<Object> object) { return Value(kind, std::move(object)); }
  /// `hint` says what is missing, for the error of whoever needs it.
  static Value undefined(std::shared_ptr<Text> hint) { return Value(Kind::kUndefined, std::move(hint)); }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  /// Whether it is an int as Python sees it: booleans are.
  bool is_whole() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_whole() || kind_ == Kind::kFloat; }

  bool as_bool() const { return number_.integer != 0; }
  int64_t as_int() const { return number_.integer; }  // of a bool too
  double as_double() const { return kind_ == Kind::kFloat ? number_.real : static_cast<double>(number_.integer); }
  const Text& as_text() const { return static_cast<const Text&>(*object_); }
  const std::string& bytes() const { return as_text().bytes; }
  const std::vector<Value>& items() const;
  const Dict& as_dict() const;
  template <class T>
  T& as() const {
    return static_cast<T&>(*object_);
  }
  const std::shared_ptr<Object>& shared() const { return object_; }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Value(Kind kind, std::shared_ptr<Object> object) : kind_(kind), object_(std::move(object)) {}

  Kind kind_ = Kind::kUndefined;
  union Number {
    int64_t integer;
    double real;
  } number_ = {0};
  std::shared_ptr<Object> object_;
};

struct List final : Object {
  std::vector<Value> items;
  bool is_group = false;  // of the filter groupby: a tuple whose items are also called grouper and list
};

/// Keys in the order in which they came. Keys are texts, numbers, none, or tuples of such.
struct Dict final : Object {
  std::vector<std::pair<Value, Value>> entries;

  /// The value under `key`, or nullptr. Refuses keys that Python cannot hash.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  /// Replaces the value of a key that is there.
  void set(Value key, Value value);

 private:
  size_t place(const Value& key) const;
  std::map<std::string, size_t> index_;  // by hash_key, once there are many
};

struct Range final : Object {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
  int64_t length = 0;

  int64_t at(int64_t index) const { return start + index * step; }
};

enum class ViewOf : uint8_t { kKeys, kValues, kItems };

struct View final : Object {
  Value dict;
  ViewOf of = ViewOf::kKeys;
};

struct Generator final : Object {
  std::function<bool(Value&)> next;  // false: there is no more
};

struct Namespace final : Object {
  std::vector<std::pair<std::string, Value>> attributes;

  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

/// Python's name of the type, for errors.
std::string_view type_name(const Value& value);

bool truth(const Value& value);
/// ==, also between types.
bool equal(Budget& budget, const Value& a, const Value& b);
/// Whether a < b. Refuses what Python does not order.
bool less(Budget& budget, const Value& a, const Value& b);
/// What it costs to look at a value as a whole, where it is a text: filters, tests and methods do.
void walk(Budget& budget, const Value& value);
/// A text that is the same for keys that are equal. Refuses what Python cannot hash, and tuples of very many items.
std::string hash_key(const Value& value);

/// Refuses containers nested beyond limits::kMaxTemplateNesting, so that later walks need not count.
int nested_depth(const std::vector<Value>& items);

/// Walks what Python can iterate over; refuses the rest.
class Cursor final {
 public:
  Cursor(Budget& budget, const Value& value);
  bool next(Value& item);

 private:
  Budget& budget_;
  Value value_;
  size_t at_ = 0;  // item, or byte of a text
};

bool is_iterable(const Value& value);
/// The items as a vector.
std::vector<Value> collect(Budget& budget, const Value& value);
/// len(), or nothing where Python has none.
std::optional<int64_t> length_of(const Value& value);

}  // namespace krait::chat_template
