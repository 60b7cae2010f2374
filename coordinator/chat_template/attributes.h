// Attributes, items and slices of values, by the rules of jinja2's sandbox: what is missing is undefined.
#pragma once

#include <memory>
#include <string>

#include "coordinator/chat_template/run.h"

namespace krait::chat_template {

/// A name behind a dot, looked up once in the tables of methods.
struct AttributeName final {
  explicit AttributeName(std::string text);

  std::string name;
  std::shared_ptr<Text> hint;          // what an undefined value of that name says
  std::shared_ptr<Text> hint_of_none;  // the same where it was looked for in none: a message without content, mostly
  Method of_string = nullptr;
  Method of_list = nullptr;
  Method of_tuple = nullptr;
  Method of_dict = nullptr;
  Method of_loop = nullptr;
  Method of_cycler = nullptr;
  bool hidden = false;  // a name like __class__, which the sandbox shows to nobody
};

/// The method of that name that the value has, or nullptr.
Method method_of(const Value& object, const AttributeName& name);

/// object.name, and where that is none, object['name'].
Value get_attribute(Run& run, const Value& object, const AttributeName& name);
/// object.name, but no item in its place.
Value get_own_attribute(Run& run, const Value& object, const AttributeName& name);
/// object[index], and where that is none and index a string, the attribute.
Value get_item(Run& run, const Value& object, const Value& index);
/// object[start:stop:step]; none for what is left out.
Value get_slice(Run& run, const Value& object, const Value& start, const Value& stop, const Value& step);

}  // namespace krait::chat_template
