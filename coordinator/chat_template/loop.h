// The variable `loop` of a for statement.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "coordinator/chat_template/value.h"

namespace krait::chat_template {

class Run;

struct Loop final : Object {
  std::shared_ptr<const List> items;
  int64_t index0 = 0;
  int64_t depth0 = 0;
  bool over = false;  // then it remembers nothing more: it could hold itself for ever
  std::optional<Value> last_changed;
  /// Renders the body over other items, one level deeper; only in a loop that is marked recursive.
  std::function<Value(Run&, const Value& items, int64_t depth0)> recurse;

  /// An attribute that is no method; nothing where it has none of that name.
  std::optional<Value> attribute(std::string_view name) const;
};

}  // namespace krait::chat_template
