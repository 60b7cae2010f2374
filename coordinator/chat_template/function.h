// What a template may call, and with what.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/chat_template/value.h"

namespace krait::chat_template {

class Run;

struct Arguments final {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Arguments under the names of a function's parameters, as Python binds them. Refuses too many, too few, and unknown
/// names. A parameter without a name ("") can only be given by its place.
class Parameters final {
 public:
  Parameters(const Arguments& arguments, std::string_view function, std::initializer_list<std::string_view> names,
             size_t required = 0);

  /// nullptr where it was not given.
  const Value* at(size_t i) const { return given_[i]; }
  const Value& needed(size_t i) const { return *given_[i]; }
  bool flag(size_t i, bool otherwise) const;
  int64_t integer(size_t i, int64_t otherwise) const;
  /// nullptr where it was not given or is none; refuses what is no string.
  const Text* text(size_t i) const;

 private:
  std::string_view function_;
  std::vector<const Value*> given_;
};

/// The integer that an index or a count is; refuses others.
int64_t need_int(const Value& value, std::string_view what);
const Text& need_text(const Value& value, std::string_view what);

struct Function : Object {
  virtual Value call(Run& run, Arguments arguments) = 0;
  virtual void append_repr(TextBuilder& out) const;
};

/// A function of the environment: range, dict, raise_exception...
struct Builtin final : Function {
  using Body = Value (*)(Run&, const Arguments&);
  explicit Builtin(Body given) : body(given) {}
  Value call(Run& run, Arguments arguments) override { return body(run, arguments); }
  Body body;
};

using Method = Value (*)(Run&, const Value& self, const Arguments&);

/// A method with the value that it belongs to.
struct BoundMethod final : Function {
  BoundMethod(Value of, Method what) : self(std::move(of)), method(what) {
    if (self.shared()) depth = self.shared()->depth + 1;
  }
  Value call(Run& run, Arguments arguments) override;
  Value self;
  Method method;
};

/// One line of a table of methods, filters or tests.
struct MethodRow final {
  std::string_view name;
  Method method = nullptr;
};

/// The method of that name in a table, or nullptr.
Method find_method(std::span<const MethodRow> table, std::string_view name);

bool is_one_of(std::span<const std::string_view> names, std::string_view name);

/// The tables of the room.
std::span<const MethodRow> string_methods();
/// A method of Python's texts or dicts that is not here.
bool is_unsupported_method(std::string_view name);
std::span<const MethodRow> container_methods(Kind kind);  // of a list, tuple, dict or range
std::span<const MethodRow> loop_methods();
std::span<const MethodRow> cycler_methods();
Method find_filter(std::string_view name);
Method find_test(std::string_view name);
/// A function that every template has, or nullptr.
Builtin::Body find_global(std::string_view name);

}  // namespace krait::chat_template
