// What filters share: items by attribute, order without regard to case, generators.
#pragma once

#include <functional>

#include "coordinator/chat_template/run.h"

namespace krait::chat_template {

/// What "a.b.0" finds in an item, as the filters' parameter `attribute` means it.
class AttributePath final {
 public:
  /// `attribute`: a string, an integer, or none for the item itself.
  explicit AttributePath(const Value& attribute);

  Value of(Run& run, Value item, const Value* otherwise = nullptr) const;

 private:
  std::vector<Value> parts_;
};

/// A string in lower case; anything else as it is.
Value without_case(Run& run, const Value& value);

/// Sorts `items` by their keys, stable; `reverse` keeps the order of equals, as Python does.
void sort_by_keys(Budget& budget, std::vector<Value>& items, std::vector<Value> keys, bool reverse);

/// A generator that asks `next`; `depth`: of what it holds.
Value make_generator(Run& run, const Value& source, std::function<bool(Value&)> next);

}  // namespace krait::chat_template
