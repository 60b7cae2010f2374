#include "coordinator/chat_template/operators.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "coordinator/chat_template/format.h"
#include "coordinator/chat_template/text_tools.h"

namespace krait::chat_template {
namespace {

[[noreturn]] void overflow() {
  refuse("an integer does not fit 64 bits");
}

[[noreturn]] void wrong_types(Operator op, const Value& a, const Value& b) {
  static constexpr std::array<std::string_view, 7> kNames = {"+", "-", "*", "/", "//", "%", "**"};
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined() && value->shared()) refuse(value->as_text().bytes);
  }
  refuse(fmt::format("'{}' is not supported between {} and {}", kNames[static_cast<size_t>(op)], type_name(a),
                     type_name(b)));
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) refuse("division by zero");
  if (a == INT64_MIN && b == -1) overflow();
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t modulo(int64_t a, int64_t b) {
  if (b == 0) refuse("division by zero");
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t power(Run& run, int64_t base, int64_t exponent) {
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  int64_t out = 1;
  for (; exponent > 0; --exponent) {
    run.budget().step();
    if (__builtin_mul_overflow(out, base, &out)) overflow();
  }
  return out;
}

Value real_power(double base, double exponent) {
  if (base == 0 && exponent < 0) refuse("0 has no negative power");
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) && std::floor(exponent) != exponent) {
    refuse("a complex number");
  }
  const double out = std::pow(base, exponent);
  if (std::isinf(out) && std::isfinite(base) && std::isfinite(exponent)) refuse("a float is too large");
  return Value::real(out);
}

double real_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

double real_floor_divide(double a, double b) {
  const double rest = real_modulo(a, b);
  const double quotient = (a - rest) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value whole_numbers(Run& run, Operator op, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (op) {
    case Operator::kAdd:
      if (__builtin_add_overflow(a, b, &out)) overflow();
      return Value::integer(out);
    case Operator::kSubtract:
      if (__builtin_sub_overflow(a, b, &out)) overflow();
      return Value::integer(out);
    case Operator::kMultiply:
      if (__builtin_mul_overflow(a, b, &out)) overflow();
      return Value::integer(out);
    case Operator::kDivide:
      if (b == 0) refuse("division by zero");
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case Operator::kFloorDivide:
      return Value::integer(floor_divide(a, b));
    case Operator::kModulo:
      return Value::integer(modulo(a, b));
    case Operator::kPower:
      if (b < 0) return real_power(static_cast<double>(a), static_cast<double>(b));
      return Value::integer(power(run, a, b));
  }
  return Value();
}

Value real_numbers(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return Value::real(a + b);
    case Operator::kSubtract:
      return Value::real(a - b);
    case Operator::kMultiply:
      return Value::real(a * b);
    case Operator::kPower:
      return real_power(a, b);
    default:
      break;
  }
  if (b == 0) refuse("division by zero");
  if (op == Operator::kDivide) return Value::real(a / b);
  return Value::real(op == Operator::kModulo ? real_modulo(a, b) : real_floor_divide(a, b));
}

Value concatenate(Run& run, const Value& a, const Value& b) {
  if (a.is_string()) {
    TextBuilder out(run.budget());
    out.append(a.as_text());
    out.append(b.as_text());
    return Value::text(out.take());
  }
  run.budget().take((a.items().size() + b.items().size()) * sizeof(Value));
  std::vector<Value> items = a.items();
  items.insert(items.end(), b.items().begin(), b.items().end());
  return a.is(Kind::kList) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value repeat(Run& run, const Value& value, int64_t times) {
  const auto count = static_cast<size_t>(std::max<int64_t>(0, times));
  if (value.is_string()) {
    TextBuilder out(run.budget());
    for (size_t i = 0; i < count && !value.bytes().empty(); ++i) {
      run.budget().step();
      out.append(value.as_text());
    }
    return Value::text(out.take());
  }
  std::vector<Value> items;
  for (size_t i = 0; i < count && !value.items().empty(); ++i) {
    run.budget().step();
    run.budget().take(value.items().size() * sizeof(Value));
    items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return value.is(Kind::kList) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

}  // namespace

Value apply(Run& run, Operator op, const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole()) return whole_numbers(run, op, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return real_numbers(op, a.as_double(), b.as_double());
  const auto is_sequence = [](const Value& value) { return value.is_string() || value.is_sequence(); };
  if (op == Operator::kAdd && is_sequence(a) && a.kind() == b.kind()) return concatenate(run, a, b);
  if (op == Operator::kMultiply && is_sequence(a) && b.is_whole()) return repeat(run, a, b.as_int());
  if (op == Operator::kMultiply && a.is_whole() && is_sequence(b)) return repeat(run, b, a.as_int());
  if (op == Operator::kModulo && a.is_string()) return format_percent(run, a.as_text(), b);
  wrong_types(op, a, b);
}

Value negate(const Value& value, bool negative) {
  if (value.is(Kind::kFloat)) return Value::real(negative ? -value.as_double() : value.as_double());
  if (!value.is_whole()) refuse(fmt::format("bad operand of a sign: {}", type_name(value)));
  if (value.as_int() == INT64_MIN && negative) overflow();
  return Value::integer(negative ? -value.as_int() : value.as_int());
}

bool contains(Run& run, const Value& item, const Value& container) {
  switch (container.kind()) {
    case Kind::kString:
      return find_text(run.budget(), container.bytes(), need_text(item, "'in <string>'").bytes) != std::string::npos;
    case Kind::kDict:
      walk(run.budget(), item);
      return container.as_dict().find(item) != nullptr;
    case Kind::kView:
      if (container.as<View>().of == ViewOf::kKeys) return container.as<View>().dict.as_dict().find(item) != nullptr;
      break;
    default:
      break;
  }
  Cursor cursor(run.budget(), container);
  for (Value other; cursor.next(other);) {
    if (equal(run.budget(), item, other)) return true;
  }
  return false;
}

bool compare(Run& run, Comparison op, const Value& a, const Value& b) {
  switch (op) {
    case Comparison::kEqual:
      return equal(run.budget(), a, b);
    case Comparison::kNotEqual:
      return !equal(run.budget(), a, b);
    case Comparison::kLess:
      return less(run.budget(), a, b);
    case Comparison::kLessEqual:
      return less(run.budget(), a, b) || equal(run.budget(), a, b);
    case Comparison::kGreater:
      return less(run.budget(), b, a);
    case Comparison::kGreaterEqual:
      return less(run.budget(), b, a) || equal(run.budget(), a, b);
    case Comparison::kIn:
      return contains(run, a, b);
    case Comparison::kNotIn:
      return !contains(run, a, b);
  }
  return false;
}

}  // namespace krait::chat_template
