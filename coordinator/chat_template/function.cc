#include "coordinator/chat_template/function.h"

#include <algorithm>

#include "coordinator/chat_template/run.h"

namespace krait::chat_template {

Parameters::Parameters(const Arguments& arguments, std::string_view function,
                       std::initializer_list<std::string_view> names, size_t required)
    : function_(function), given_(names.size(), nullptr) {
  if (arguments.positional.size() > names.size()) {
    refuse(fmt::format("{}() takes at most {} arguments, {} were given", function, names.size(),
                       arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i)
    given_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto* place = std::find(names.begin(), names.end(), name);
    if (place == names.end() || name.empty()) refuse(fmt::format("{}() has no parameter '{}'", function, name));
    const Value*& given = given_[static_cast<size_t>(place - names.begin())];
    if (given != nullptr) refuse(fmt::format("{}() was given '{}' twice", function, name));
    given = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (given_[i] == nullptr) refuse(fmt::format("{}() needs {} arguments", function, required));
  }
}

bool Parameters::flag(size_t i, bool otherwise) const {
  return given_[i] == nullptr ? otherwise : truth(*given_[i]);
}

int64_t Parameters::integer(size_t i, int64_t otherwise) const {
  return given_[i] == nullptr ? otherwise : need_int(*given_[i], function_);
}

const Text* Parameters::text(size_t i) const {
  if (given_[i] == nullptr || given_[i]->is(Kind::kNone)) return nullptr;
  return &need_text(*given_[i], function_);
}

int64_t need_int(const Value& value, std::string_view what) {
  if (!value.is_whole()) refuse(fmt::format("{} needs an integer, not {}", what, type_name(value)));
  return value.as_int();
}

const Text& need_text(const Value& value, std::string_view what) {
  if (!value.is_string()) refuse(fmt::format("{} needs a string, not {}", what, type_name(value)));
  return value.as_text();
}

void Function::append_repr(TextBuilder&) const {
  refuse("a function has no text");
}

Value BoundMethod::call(Run& run, Arguments arguments) {
  walk(run.budget(), self);
  return method(run, self, arguments);
}

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Method find_method(std::span<const MethodRow> table, std::string_view name) {
  for (const MethodRow& row : table) {
    if (row.name == name) return row.method;
  }
  return nullptr;
}

}  // namespace krait::chat_template
