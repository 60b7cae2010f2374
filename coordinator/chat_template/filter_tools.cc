#include "coordinator/chat_template/filter_tools.h"

#include <algorithm>
#include <numeric>

#include "common/base/limits.h"
#include "coordinator/chat_template/attributes.h"
#include "coordinator/chat_template/text_tools.h"

namespace krait::chat_template {

AttributePath::AttributePath(const Value& attribute) {
  if (attribute.is(Kind::kNone)) return;
  if (!attribute.is_string()) {
    parts_.push_back(attribute);
    return;
  }
  const std::string& path = attribute.bytes();
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    const auto index = number ? parse_int(part, 10) : std::nullopt;
    parts_.push_back(index ? Value::integer(*index) : Value::string(part, true));
    begin = end + 1;
  }
}

Value AttributePath::of(Run& run, Value item, const Value* otherwise) const {
  for (const Value& part : parts_) {
    run.budget().step();
    item = get_item(run, item, part);
    if (otherwise != nullptr && item.is_undefined()) item = *otherwise;
  }
  return item;
}

Value without_case(Run& run, const Value& value) {
  return value.is_string() ? lower_of(run, value.as_text()) : value;
}

void sort_by_keys(Budget& budget, std::vector<Value>& items, std::vector<Value> keys, bool reverse) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return less(budget, keys[reverse ? b : a], keys[reverse ? a : b]); });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const size_t at : order)
    sorted.push_back(std::move(items[at]));
  items = std::move(sorted);
}

Value make_generator(Run& run, const Value& source, std::function<bool(Value&)> next) {
  run.budget().take(sizeof(Generator));
  auto generator = std::make_shared<Generator>();
  generator->depth = 1 + (source.shared() ? source.shared()->depth : 0);
  if (generator->depth > limits::kMaxTemplateNesting) refuse("values nest too deeply");
  generator->next = std::move(next);
  return Value::object(Kind::kGenerator, std::move(generator));
}

}  // namespace krait::chat_template
