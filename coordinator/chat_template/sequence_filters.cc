// Filters over sequences: order, sums, groups.
#include <fmt/format.h>

#include <algorithm>

#include "coordinator/chat_template/filter_tools.h"
#include "coordinator/chat_template/filters.h"
#include "coordinator/chat_template/operators.h"
#include "coordinator/chat_template/python_text.h"
#include "coordinator/chat_template/text_tools.h"

namespace krait::chat_template {
namespace {

const Value kNone = Value::none();

const Value& or_none(const Value* value) {
  return value != nullptr ? *value : kNone;
}

Value length(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "length", {});
  const auto count = length_of(self);
  if (!count) refuse(fmt::format("{} has no length", type_name(self)));
  return Value::integer(*count);
}

Value first(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "first", {});
  Value item;
  return Cursor(run.budget(), self).next(item) ? item : Value();
}

Value last(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "last", {});
  if (self.is(Kind::kGenerator)) refuse("a generator has no last item: turn it into a list first");
  const auto items = collect(run.budget(), self);
  return items.empty() ? Value() : items.back();
}

Value list(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "list", {});
  return Value::list(collect(run.budget(), self));
}

Value generator_over(Run& run, std::vector<Value> items) {
  const Value list = Value::list(std::move(items));
  return make_generator(run, list, [list, at = size_t{0}](Value& item) mutable {
    if (at >= list.items().size()) return false;
    item = list.items()[at++];
    return true;
  });
}

Value items(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "items", {});
  if (self.is_undefined()) return generator_over(run, {});
  if (!self.is(Kind::kDict)) refuse("items: not a dict");
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.as_dict().entries)
    pairs.push_back(Value::tuple({key, value}));
  run.budget().take(pairs.size() * sizeof(Value) * 4);
  return generator_over(run, std::move(pairs));
}

Value reverse(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "reverse", {});
  auto all = collect(run.budget(), self);
  std::reverse(all.begin(), all.end());
  if (self.is(Kind::kGenerator)) return Value::list(std::move(all));
  if (!self.is_string()) return generator_over(run, std::move(all));
  TextBuilder out(run.budget());
  for (const Value& character : all)
    out.append(character.as_text());
  return Value::text(out.take());
}

Value join(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "join", {"d", "attribute"});
  const Value between = given.at(0) != nullptr ? to_text(run.budget(), given.needed(0)) : Value::string("", true);
  const AttributePath path(or_none(given.at(1)));
  TextBuilder out(run.budget());
  Cursor cursor(run.budget(), self);
  bool first_item = true;
  for (Value item; cursor.next(item); first_item = false) {
    if (!first_item) out.append(between.as_text());
    append_str(out, path.of(run, item));
  }
  return Value::text(out.take());
}

Value dictsort(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "dictsort", {"case_sensitive", "by", "reverse"});
  const std::string by = given.text(1) != nullptr ? given.text(1)->bytes : "key";
  if (by != "key" && by != "value") refuse("dictsort: by must be key or value");
  if (!self.is(Kind::kDict)) refuse("dictsort: not a dict");
  std::vector<Value> pairs;
  std::vector<Value> keys;
  for (const auto& [key, value] : self.as_dict().entries) {
    run.budget().take(4 * sizeof(Value));
    pairs.push_back(Value::tuple({key, value}));
    const Value& sorted_by = by == "key" ? key : value;
    keys.push_back(given.flag(0, false) ? sorted_by : without_case(run, sorted_by));
  }
  sort_by_keys(run.budget(), pairs, std::move(keys), given.flag(2, false));
  return Value::list(std::move(pairs));
}

/// The paths in "a,b.c".
std::vector<AttributePath> paths_of(const Value& attribute) {
  std::vector<AttributePath> paths;
  if (!attribute.is_string()) {
    paths.emplace_back(attribute);
    return paths;
  }
  const std::string& text = attribute.bytes();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    paths.emplace_back(Value::string(text.substr(begin, end - begin), true));
    begin = end + 1;
  }
  return paths;
}

Value sort(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "sort", {"reverse", "case_sensitive", "attribute"});
  const auto paths = paths_of(or_none(given.at(2)));
  auto all = collect(run.budget(), self);
  std::vector<Value> keys;
  for (const Value& item : all) {
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      const Value found = path.of(run, item);
      key.push_back(given.flag(1, false) ? found : without_case(run, found));
    }
    run.budget().take(sizeof(List) + key.size() * sizeof(Value));
    keys.push_back(Value::list(std::move(key)));
  }
  sort_by_keys(run.budget(), all, std::move(keys), given.flag(0, false));
  return Value::list(std::move(all));
}

Value extreme(Run& run, const Value& self, const Arguments& arguments, bool most) {
  const Parameters given(arguments, most ? "max" : "min", {"case_sensitive", "attribute"});
  const AttributePath path(or_none(given.at(1)));
  Value best;
  Value best_key;
  bool any = false;
  Cursor cursor(run.budget(), self);
  for (Value item; cursor.next(item);) {
    Value key = path.of(run, item);
    if (!given.flag(0, false)) key = without_case(run, key);
    if (any && !(most ? less(run.budget(), best_key, key) : less(run.budget(), key, best_key))) continue;
    any = true;
    best = item;
    best_key = std::move(key);
  }
  return best;
}

Value min(Run& run, const Value& self, const Arguments& arguments) {
  return extreme(run, self, arguments, false);
}

Value max(Run& run, const Value& self, const Arguments& arguments) {
  return extreme(run, self, arguments, true);
}

Value sum(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "sum", {"attribute", "start"});
  const AttributePath path(or_none(given.at(0)));
  Value total = given.at(1) != nullptr ? given.needed(1) : Value::integer(0);
  if (total.is_string()) refuse("sum: texts are joined, not summed");
  Cursor cursor(run.budget(), self);
  for (Value item; cursor.next(item);)
    total = apply(run, Operator::kAdd, total, path.of(run, item));
  return total;
}

Value unique(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "unique", {"case_sensitive", "attribute"});
  const AttributePath path(or_none(given.at(1)));
  Dict seen;
  std::vector<Value> out;
  Cursor cursor(run.budget(), self);
  for (Value item; cursor.next(item);) {
    Value key = path.of(run, item);
    if (!given.flag(0, false)) key = without_case(run, key);
    run.budget().take(2 * sizeof(Value));
    walk(run.budget(), key);
    if (seen.find(key) != nullptr) continue;
    seen.set(std::move(key), Value::none());
    out.push_back(item);
  }
  return generator_over(run, std::move(out));
}

Value groupby(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "groupby", {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(given.needed(0));
  const Value* otherwise = given.at(1) != nullptr && !given.at(1)->is(Kind::kNone) ? given.at(1) : nullptr;
  const auto key_of = [&](const Value& item) {
    const Value key = path.of(run, item, otherwise);
    return given.flag(2, false) ? key : without_case(run, key);
  };
  auto all = collect(run.budget(), self);
  std::vector<Value> keys;
  keys.reserve(all.size());
  for (const Value& item : all)
    keys.push_back(key_of(item));
  sort_by_keys(run.budget(), all, std::move(keys), false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < all.size();) {
    const Value key = key_of(all[begin]);
    size_t end = begin + 1;
    while (end < all.size() && equal(run.budget(), key_of(all[end]), key))
      ++end;
    std::vector<Value> group(all.begin() + static_cast<std::ptrdiff_t>(begin),
                             all.begin() + static_cast<std::ptrdiff_t>(end));
    run.budget().take((group.size() + 2) * sizeof(Value));
    groups.push_back(Value::tuple({path.of(run, all[begin], otherwise), Value::list(std::move(group))}));
    groups.back().as<List>().is_group = true;
    begin = end;
  }
  return Value::list(std::move(groups));
}

Value batch(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "batch", {"linecount", "fill_with"}, 1);
  const int64_t size = need_int(given.needed(0), "batch");
  if (size < 1) refuse("batch: the size must be positive");
  std::vector<Value> batches;
  std::vector<Value> now;
  for (Value& item : collect(run.budget(), self)) {
    if (std::cmp_equal(now.size(), size)) batches.push_back(Value::list(std::exchange(now, {})));
    now.push_back(std::move(item));
  }
  if (!now.empty()) {
    if (const Value& fill = or_none(given.at(1)); !fill.is(Kind::kNone)) {
      run.budget().take(static_cast<size_t>(size) * sizeof(Value));
      now.resize(static_cast<size_t>(size), fill);
    }
    batches.push_back(Value::list(std::move(now)));
  }
  run.budget().take(batches.size() * sizeof(List));
  return generator_over(run, std::move(batches));
}

Value slice(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "slice", {"slices", "fill_with"}, 1);
  const int64_t count = need_int(given.needed(0), "slice");
  if (count < 1) refuse("slice: the number must be positive");
  run.budget().take(static_cast<size_t>(count) * sizeof(List));
  const auto all = collect(run.budget(), self);
  const auto total = static_cast<int64_t>(all.size());
  std::vector<Value> slices;
  int64_t begin = 0;
  for (int64_t i = 0; i < count; ++i) {
    const bool longer = i < total % count;
    const int64_t end = begin + total / count + (longer ? 1 : 0);
    std::vector<Value> part(all.begin() + begin, all.begin() + end);
    if (const Value& fill = or_none(given.at(1)); !fill.is(Kind::kNone) && !longer) part.push_back(fill);
    slices.push_back(Value::list(std::move(part)));
    begin = end;
  }
  return generator_over(run, std::move(slices));
}

constexpr MethodRow kRows[] = {
    {"length", length}, {"count", length},    {"first", first}, {"last", last},         {"list", list},
    {"items", items},   {"reverse", reverse}, {"join", join},   {"dictsort", dictsort}, {"sort", sort},
    {"min", min},       {"max", max},         {"sum", sum},     {"unique", unique},     {"groupby", groupby},
    {"batch", batch},   {"slice", slice},
};

}  // namespace

std::span<const MethodRow> sequence_filters() {
  return kRows;
}

}  // namespace krait::chat_template
