// Filters that call other filters and tests: map, select, reject and their kin. What they give is made when it is
// asked for, so an item that nobody looks at raises nothing.
#include "coordinator/chat_template/filter_tools.h"
#include "coordinator/chat_template/filters.h"

namespace krait::chat_template {
namespace {

/// The arguments behind the first `count`.
Arguments rest_of(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count), arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

Value map_attribute(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "map", {"attribute", "default"}, 1);
  const bool has_default = given.at(1) != nullptr && !given.at(1)->is(Kind::kNone);
  const Value otherwise = has_default ? given.needed(1) : Value::none();
  return make_generator(run, self,
                        [&run, cursor = Cursor(run.budget(), self), path = AttributePath(given.needed(0)), has_default,
                         otherwise](Value& item) mutable {
                          if (!cursor.next(item)) return false;
                          item = path.of(run, item, has_default ? &otherwise : nullptr);
                          return true;
                        });
}

Value map(Run& run, const Value& self, const Arguments& arguments) {
  if (!truth(self)) return make_generator(run, self, [](Value&) { return false; });
  if (arguments.positional.empty()) return map_attribute(run, self, arguments);
  const std::string& name = need_text(arguments.positional[0], "map").bytes;
  const Method filter = find_filter(name);
  if (filter == nullptr) refuse(fmt::format("map: there is no filter '{}'", name));
  return make_generator(
      run, self,
      [&run, cursor = Cursor(run.budget(), self), filter, rest = rest_of(arguments, 1)](Value& item) mutable {
        if (!cursor.next(item)) return false;
        walk(run.budget(), item);
        item = filter(run, item, rest);
        return true;
      });
}

/// Items for which a test (or their truth) is `wanted`; with an attribute, the test is of that.
Value choose(Run& run, const Value& self, const Arguments& arguments, bool by_attribute, bool wanted) {
  if (!truth(self)) return make_generator(run, self, [](Value&) { return false; });
  const auto& given = arguments.positional;
  const size_t at = by_attribute ? 1 : 0;
  if (given.size() < at) refuse("selectattr: the attribute is missing");
  Method test = nullptr;
  if (given.size() > at) {
    const std::string& name = need_text(given[at], "select").bytes;
    test = find_test(name);
    if (test == nullptr) refuse(fmt::format("select: there is no test '{}'", name));
  }
  const Arguments rest = given.size() > at ? rest_of(arguments, at + 1) : Arguments();
  return make_generator(run, self,
                        [&run, cursor = Cursor(run.budget(), self), test, rest, wanted,
                         path = AttributePath(by_attribute ? given[0] : Value::none())](Value& item) mutable {
                          while (cursor.next(item)) {
                            const Value tested = path.of(run, item);
                            walk(run.budget(), tested);
                            const bool fits = truth(test == nullptr ? tested : test(run, tested, rest));
                            if (fits == wanted) return true;
                          }
                          return false;
                        });
}

Value select(Run& run, const Value& self, const Arguments& arguments) {
  return choose(run, self, arguments, false, true);
}

Value reject(Run& run, const Value& self, const Arguments& arguments) {
  return choose(run, self, arguments, false, false);
}

Value selectattr(Run& run, const Value& self, const Arguments& arguments) {
  return choose(run, self, arguments, true, true);
}

Value rejectattr(Run& run, const Value& self, const Arguments& arguments) {
  return choose(run, self, arguments, true, false);
}

constexpr MethodRow kRows[] = {
    {"map", map}, {"select", select}, {"reject", reject}, {"selectattr", selectattr}, {"rejectattr", rejectattr},
};

}  // namespace

std::span<const MethodRow> choosing_filters() {
  return kRows;
}

bool is_filter_name(std::string_view name) {
  // Those that the parser knows, and those that are not here.
  static constexpr std::string_view kOthers[] = {
      "safe",   "e",         "escape", "forceescape", "filesizeformat", "pprint",
      "random", "striptags", "urlize", "wordwrap",    "xmlattr",
  };
  return find_filter(name) != nullptr || is_one_of(kOthers, name);
}

Method find_filter(std::string_view name) {
  for (const auto table : {text_filters(), sequence_filters(), choosing_filters()}) {
    if (const Method filter = find_method(table, name)) return filter;
  }
  return nullptr;
}

}  // namespace krait::chat_template
