// Python's operators on values. All refuse what Python raises for, and integers that leave 64 bits.
#pragma once

#include "coordinator/chat_template/run.h"

namespace krait::chat_template {

enum class Operator : uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class Comparison : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

Value apply(Run& run, Operator op, const Value& a, const Value& b);
bool compare(Run& run, Comparison op, const Value& a, const Value& b);
Value negate(const Value& value, bool negative);
/// a in b.
bool contains(Run& run, const Value& item, const Value& container);

}  // namespace krait::chat_template
