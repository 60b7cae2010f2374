// Methods of list, tuple, dict and loop that change nothing; the sandbox hides the others.
#include "coordinator/chat_template/loop.h"
#include "coordinator/chat_template/operators.h"

namespace krait::chat_template {
namespace {

Value view(Run& run, const Value& self, const Arguments& arguments, ViewOf of) {
  const Parameters given(arguments, "this method", {});
  run.budget().take(sizeof(View));
  auto out = std::make_shared<View>();
  out->dict = self;
  out->of = of;
  out->depth = self.shared()->depth;
  return Value::object(Kind::kView, std::move(out));
}

Value keys(Run& run, const Value& self, const Arguments& arguments) {
  return view(run, self, arguments, ViewOf::kKeys);
}

Value values(Run& run, const Value& self, const Arguments& arguments) {
  return view(run, self, arguments, ViewOf::kValues);
}

Value items(Run& run, const Value& self, const Arguments& arguments) {
  return view(run, self, arguments, ViewOf::kItems);
}

Value get(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "get", {"", ""}, 1);
  walk(run.budget(), given.needed(0));
  if (const Value* value = self.as_dict().find(given.needed(0))) return *value;
  return given.at(1) != nullptr ? given.needed(1) : Value::none();
}

Value copy(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "copy", {});
  return self;
}

Value count(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "count", {""}, 1);
  int64_t found = 0;
  Cursor cursor(run.budget(), self);
  for (Value item; cursor.next(item);)
    found += equal(run.budget(), item, given.needed(0)) ? 1 : 0;
  return Value::integer(found);
}

Value index(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "index", {"", "", ""}, 1);
  const auto length = length_of(self).value_or(0);
  const auto bound = [&](size_t i, int64_t otherwise) {
    const int64_t at = given.integer(i, otherwise);
    return at < 0 ? std::max<int64_t>(0, at + length) : at;
  };
  const int64_t first = bound(1, 0);
  const int64_t last = bound(2, length);
  Cursor cursor(run.budget(), self);
  Value item;
  for (int64_t i = 0; i < last && cursor.next(item); ++i) {
    if (i >= first && equal(run.budget(), item, given.needed(0))) return Value::integer(i);
  }
  refuse("the item is not in the list");
}

Value cycle(Run&, const Value& self, const Arguments& arguments) {
  const auto& given = arguments.positional;
  if (given.empty() || !arguments.named.empty()) refuse("loop.cycle() needs items");
  return given[static_cast<size_t>(self.as<Loop>().index0) % given.size()];
}

Value changed(Run& run, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty()) refuse("loop.changed() takes no named arguments");
  auto& loop = self.as<Loop>();
  Value now = Value::tuple(arguments.positional);
  const bool differs = !loop.last_changed || !equal(run.budget(), *loop.last_changed, now);
  if (differs && !loop.over) loop.last_changed = std::move(now);
  return Value::boolean(differs);
}

constexpr MethodRow kOfList[] = {{"count", count}, {"index", index}, {"copy", copy}};
constexpr MethodRow kOfTuple[] = {{"count", count}, {"index", index}};
constexpr MethodRow kOfDict[] = {{"keys", keys}, {"values", values}, {"items", items}, {"get", get}, {"copy", copy}};
constexpr MethodRow kOfLoop[] = {{"cycle", cycle}, {"changed", changed}};

}  // namespace

std::span<const MethodRow> container_methods(Kind kind) {
  if (kind == Kind::kDict) return kOfDict;
  if (kind == Kind::kList) return kOfList;
  return kOfTuple;
}

std::span<const MethodRow> loop_methods() {
  return kOfLoop;
}

std::optional<Value> Loop::attribute(std::string_view name) const {
  const auto length = static_cast<int64_t>(items->items.size());
  if (name == "index") return Value::integer(index0 + 1);
  if (name == "index0") return Value::integer(index0);
  if (name == "first") return Value::boolean(index0 == 0);
  if (name == "last") return Value::boolean(index0 + 1 == length);
  if (name == "length") return Value::integer(length);
  if (name == "revindex") return Value::integer(length - index0);
  if (name == "revindex0") return Value::integer(length - index0 - 1);
  if (name == "depth") return Value::integer(depth0 + 1);
  if (name == "depth0") return Value::integer(depth0);
  const auto neighbour = [&](int64_t at) -> Value {
    return at < 0 || at >= length ? Value() : items->items[static_cast<size_t>(at)];
  };
  if (name == "previtem") return neighbour(index0 - 1);
  if (name == "nextitem") return neighbour(index0 + 1);
  return std::nullopt;
}

}  // namespace krait::chat_template
