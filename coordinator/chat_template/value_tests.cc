// The tests behind `is`.
#include "coordinator/chat_template/filters.h"
#include "coordinator/chat_template/operators.h"
#include "coordinator/chat_template/python_text.h"
#include "coordinator/chat_template/string_case.h"

namespace krait::chat_template {
namespace {

template <class Test>
Value plain(const Arguments& arguments, const Test& test) {
  const Parameters given(arguments, "a test", {});
  return Value::boolean(test());
}

template <Kind kKind>
Value is_kind(Run&, const Value& self, const Arguments& arguments) {
  return plain(arguments, [&] { return self.is(kKind); });
}

Value is_defined(Run&, const Value& self, const Arguments& arguments) {
  return plain(arguments, [&] { return !self.is_undefined(); });
}

Value is_true(Run&, const Value& self, const Arguments& arguments) {
  return plain(arguments, [&] { return self.is(Kind::kBool) && self.as_bool(); });
}

Value is_false(Run&, const Value& self, const Arguments& arguments) {
  return plain(arguments, [&] { return self.is(Kind::kBool) && !self.as_bool(); });
}

Value is_number(Run&, const Value& self, const Arguments& arguments) {
  return plain(arguments, [&] { return self.is_number(); });
}

/// What has a length and items, as Python asks it: dicts and the undefined have too.
Value is_sequence(Run&, const Value& self, const Arguments& arguments) {
  return plain(arguments, [&] { return length_of(self).has_value() && !self.is(Kind::kView); });
}

Value is_iterable_value(Run&, const Value& self, const Arguments& arguments) {
  return plain(arguments, [&] { return is_iterable(self) || self.is(Kind::kLoop); });
}

/// The undefined too: to call it is an error of its own.
Value is_callable(Run&, const Value& self, const Arguments& arguments) {
  return plain(arguments, [&] { return self.is(Kind::kFunction) || self.is(Kind::kLoop) || self.is_undefined(); });
}

Value is_escaped(Run&, const Value&, const Arguments& arguments) {
  return plain(arguments, [] { return false; });
}

Value is_upper_text(Run& run, const Value& self, const Arguments& arguments) {
  return plain(arguments, [&] { return text_is_upper(to_text(run.budget(), self).as_text()); });
}

Value is_lower_text(Run& run, const Value& self, const Arguments& arguments) {
  return plain(arguments, [&] { return text_is_lower(to_text(run.budget(), self).as_text()); });
}

Value is_filter(Run&, const Value& self, const Arguments& arguments) {
  return plain(arguments, [&] { return self.is_string() && is_filter_name(self.bytes()); });
}

Value is_test(Run&, const Value& self, const Arguments& arguments) {
  return plain(arguments, [&] { return self.is_string() && find_test(self.bytes()) != nullptr; });
}

/// self % number == rest.
bool leaves(Run& run, const Value& self, const Value& number, int64_t rest) {
  return equal(run.budget(), apply(run, Operator::kModulo, self, number), Value::integer(rest));
}

Value is_even(Run& run, const Value& self, const Arguments& arguments) {
  return plain(arguments, [&] { return leaves(run, self, Value::integer(2), 0); });
}

Value is_odd(Run& run, const Value& self, const Arguments& arguments) {
  return plain(arguments, [&] { return leaves(run, self, Value::integer(2), 1); });
}

Value is_divisible(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "divisibleby", {"num"}, 1);
  return Value::boolean(leaves(run, self, given.needed(0), 0));
}

Value is_same(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "sameas", {"other"}, 1);
  const Value& other = given.needed(0);
  if (self.kind() != other.kind()) return Value::boolean(false);
  const bool plain_value = self.is(Kind::kNone) || self.is_whole();
  return Value::boolean(plain_value ? self.as_int() == other.as_int() : self.shared() == other.shared());
}

template <Comparison kOp>
Value compared(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "a comparison", {""}, 1);
  return Value::boolean(compare(run, kOp, self, given.needed(0)));
}

constexpr MethodRow kRows[] = {
    {"defined", is_defined},
    {"undefined", is_kind<Kind::kUndefined>},
    {"none", is_kind<Kind::kNone>},
    {"string", is_kind<Kind::kString>},
    {"mapping", is_kind<Kind::kDict>},
    {"iterable", is_iterable_value},
    {"sequence", is_sequence},
    {"boolean", is_kind<Kind::kBool>},
    {"integer", is_kind<Kind::kInt>},
    {"float", is_kind<Kind::kFloat>},
    {"number", is_number},
    {"true", is_true},
    {"false", is_false},
    {"callable", is_callable},
    {"even", is_even},
    {"odd", is_odd},
    {"divisibleby", is_divisible},
    {"sameas", is_same},
    {"escaped", is_escaped},
    {"upper", is_upper_text},
    {"lower", is_lower_text},
    {"filter", is_filter},
    {"test", is_test},
    {"in", compared<Comparison::kIn>},
    {"==", compared<Comparison::kEqual>},
    {"eq", compared<Comparison::kEqual>},
    {"equalto", compared<Comparison::kEqual>},
    {"!=", compared<Comparison::kNotEqual>},
    {"ne", compared<Comparison::kNotEqual>},
    {">", compared<Comparison::kGreater>},
    {"gt", compared<Comparison::kGreater>},
    {"greaterthan", compared<Comparison::kGreater>},
    {">=", compared<Comparison::kGreaterEqual>},
    {"ge", compared<Comparison::kGreaterEqual>},
    {"<", compared<Comparison::kLess>},
    {"lt", compared<Comparison::kLess>},
    {"lessthan", compared<Comparison::kLess>},
    {"<=", compared<Comparison::kLessEqual>},
    {"le", compared<Comparison::kLessEqual>},
};

}  // namespace

Method find_test(std::string_view name) {
  return find_method(kRows, name);
}

}  // namespace krait::chat_template
