#include "coordinator/chat_template/expressions.h"

#include "common/base/limits.h"
#include "coordinator/chat_template/lexer.h"
#include "coordinator/chat_template/loop.h"
#include "coordinator/chat_template/python_text.h"
#include "coordinator/chat_template/text_tools.h"

namespace krait::chat_template {

Expression::Expression(Position at, int below) : at_(at), depth_(below + 1) {
  if (depth_ > limits::kMaxTemplateSyntaxDepth) fail(at, "the expression nests too deeply");
}

int depth_of(std::initializer_list<const Expression*> expressions) {
  int deepest = 0;
  for (const Expression* expression : expressions) {
    if (expression != nullptr) deepest = std::max(deepest, expression->depth());
  }
  return deepest;
}

int depth_of(const std::vector<ExpressionPtr>& expressions) {
  int deepest = 0;
  for (const auto& expression : expressions) {
    if (expression != nullptr) deepest = std::max(deepest, expression->depth());
  }
  return deepest;
}

int DictLiteral::depth_of_pairs(const Pairs& pairs) {
  int deepest = 0;
  for (const auto& [key, value] : pairs)
    deepest = std::max(deepest, depth_of({key.get(), value.get()}));
  return deepest;
}

int Compared::depth_of_all(const Expression& first, const Rest& rest) {
  int deepest = first.depth();
  for (const auto& [op, expression] : rest)
    deepest = std::max(deepest, expression->depth());
  return deepest;
}

int CallArguments::depth() const {
  int deepest = std::max(depth_of(positional), depth_of({more_positional.get(), more_named.get()}));
  for (const auto& [name, expression] : named)
    deepest = std::max(deepest, expression->depth());
  return deepest;
}

NameRef::NameRef(Position at, NameId id, const std::string& name)
    : Expression(at, 0),
      id_(id),
      body_(find_global(name)),
      missing_(Value::undefined(std::make_shared<Text>(fmt::format("'{}' is undefined", name), true))) {}

Value NameRef::compute(Run& run) const {
  if (const Value* value = run.find(id_)) return *value;
  if (body_ == nullptr) return missing_;
  run.budget().take(sizeof(Builtin));
  return Value::object(Kind::kFunction, std::make_shared<Builtin>(body_));
}

Value SequenceLiteral::compute(Run& run) const {
  std::vector<Value> items;
  items.reserve(items_.size());
  for (const auto& item : items_)
    items.push_back(item->eval(run));
  run.set_position(at());
  run.budget().take(sizeof(List) + items.size() * sizeof(Value));
  return kind_ == Kind::kList ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value DictLiteral::compute(Run& run) const {
  auto dict = std::make_shared<Dict>();
  run.budget().take(sizeof(Dict) + pairs_.size() * 2 * sizeof(Value));
  for (const auto& [key, value] : pairs_) {
    Value made_key = key->eval(run);
    Value made = value->eval(run);
    run.set_position(at());
    walk(run.budget(), made_key);
    dict->set(std::move(made_key), std::move(made));
  }
  return Value::dict(std::move(dict));
}

Value Attribute::compute(Run& run) const {
  const Value object = object_->eval(run);
  run.set_position(at());
  return get_attribute(run, object, name_);
}

Value Item::compute(Run& run) const {
  const Value object = object_->eval(run);
  const Value index = index_->eval(run);
  run.set_position(at());
  return get_item(run, object, index);
}

Value SliceOf::compute(Run& run) const {
  const Value object = object_->eval(run);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i)
    bounds[i] = bounds_[i] != nullptr ? bounds_[i]->eval(run) : Value::none();
  run.set_position(at());
  return get_slice(run, object, bounds[0], bounds[1], bounds[2]);
}

Arguments CallArguments::eval(Run& run) const {
  Arguments out;
  out.positional.reserve(positional.size());
  for (const auto& argument : positional)
    out.positional.push_back(argument->eval(run));
  if (more_positional != nullptr) {
    for (Value& item : collect(run.budget(), more_positional->eval(run)))
      out.positional.push_back(std::move(item));
  }
  for (const auto& [name, argument] : named)
    out.named.emplace_back(name, argument->eval(run));
  if (more_named == nullptr) return out;
  const Value more = more_named->eval(run);
  if (!more.is(Kind::kDict)) refuse("what stands behind ** must be a dict");
  for (const auto& [key, value] : more.as_dict().entries) {
    run.budget().take(sizeof(Value));
    if (!key.is_string()) refuse("names of arguments must be strings");
    for (const auto& [name, other] : out.named) {
      if (name == key.bytes()) refuse(fmt::format("the argument '{}' is given twice", name));
    }
    out.named.emplace_back(key.bytes(), value);
  }
  return out;
}

Value Call::call_value(Run& run, const Value& callee, Arguments arguments) {
  if (callee.is(Kind::kFunction)) return callee.as<Function>().call(run, std::move(arguments));
  if (callee.is(Kind::kLoop)) {
    const auto& loop = callee.as<Loop>();
    const Parameters given(arguments, "loop", {"iterable"}, 1);
    if (!loop.recurse) refuse("only a loop that is marked recursive, and not over, can be called");
    return loop.recurse(run, given.needed(0), loop.depth0 + 1);
  }
  if (callee.is_undefined() && callee.shared()) refuse(callee.as_text().bytes);
  refuse(fmt::format("{} cannot be called", type_name(callee)));
}

Value Call::call_with(Run& run, const Value* caller) const {
  Method method = nullptr;
  Builtin::Body body = nullptr;
  Value callee;
  // Methods and functions are called without making a value of them first.
  if (const auto* attribute = dynamic_cast<const Attribute*>(callee_.get())) {
    callee = attribute->object().eval(run);
    run.set_position(at());
    method = method_of(callee, attribute->name());
    if (method == nullptr) callee = get_attribute(run, callee, attribute->name());
  } else if (const auto* name = dynamic_cast<const NameRef*>(callee_.get())) {
    body = name->global(run);
    if (body == nullptr) callee = callee_->eval(run);
  } else {
    callee = callee_->eval(run);
  }
  Arguments arguments = arguments_.eval(run);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  run.set_position(at());
  if (method != nullptr) {
    walk(run.budget(), callee);
    return method(run, callee, arguments);
  }
  if (body != nullptr) return body(run, arguments);
  return call_value(run, callee, std::move(arguments));
}

Value Applied::apply_to(Run& run, const Value& subject) const {
  const Arguments arguments = arguments_.eval(run);
  run.set_position(at());
  walk(run.budget(), subject);
  return method_(run, subject, arguments);
}

Markup::Markup(Position at, std::string name, Escapes escapes, ExpressionPtr inner)
    : Expression(at, inner->depth()),
      name_(std::move(name)),
      escapes_(escapes == Escapes::kAlways ||
               (escapes == Escapes::kUnlessMarkup && dynamic_cast<const Markup*>(inner.get()) == nullptr)),
      inner_(std::move(inner)) {}

Value Markup::compute(Run& run) const {
  const Value value = inner_->eval(run);
  run.set_position(at());
  return escapes_ ? escaped(run, to_text(run.budget(), value).as_text()) : value;
}

Value Signed::compute(Run& run) const {
  const Value value = inner_->eval(run);
  run.set_position(at());
  return negate(value, negative_);
}

Value Binary::compute(Run& run) const {
  const Value left = left_->eval(run);
  const Value right = right_->eval(run);
  run.set_position(at());
  return apply(run, op_, left, right);
}

Value Joined::compute(Run& run) const {
  TextBuilder out(run.budget());
  for (const auto& part : parts_) {
    const Value value = part->eval(run);
    run.set_position(at());
    append_str(out, value);
  }
  return Value::text(out.take());
}

Value Compared::compute(Run& run) const {
  Value left = first_->eval(run);
  for (const auto& [op, expression] : rest_) {
    Value right = expression->eval(run);
    run.set_position(at());
    if (!compare(run, op, left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Logical::compute(Run& run) const {
  Value left = left_->eval(run);
  return truth(left) == is_and_ ? right_->eval(run) : left;
}

Value Conditional::compute(Run& run) const {
  if (truth(test_->eval(run))) return yes_->eval(run);
  return no_ != nullptr ? no_->eval(run) : Value();
}

}  // namespace krait::chat_template
