#include "coordinator/chat_template/statements.h"

#include "coordinator/chat_template/loop.h"
#include "coordinator/chat_template/python_text.h"

namespace krait::chat_template {
namespace {

Value filtered(Run& run, const Filters& filters, Value value) {
  for (const auto& filter : filters)
    value = filter->apply_to(run, value);
  return value;
}

/// Ends a loop's life as something that can be called or holds values, however the loop is left.
class LoopGuard final {
 public:
  explicit LoopGuard(std::shared_ptr<Loop> loop) : loop_(std::move(loop)) {}
  ~LoopGuard() {
    loop_->over = true;
    loop_->last_changed.reset();
    loop_->recurse = nullptr;
  }
  LoopGuard(const LoopGuard&) = delete;
  LoopGuard& operator=(const LoopGuard&) = delete;

 private:
  const std::shared_ptr<Loop> loop_;
};

}  // namespace

Flow run_block(Run& run, const Block& block) {
  const Nested nested(run);
  for (const auto& statement : block) {
    run.budget().step();
    if (const Flow flow = statement->run(run); flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

void hide(Scope& scope, const HiddenNames& names) {
  for (const NameId name : names)
    scope.set(name, Value());
}

std::optional<Value> captured(Run& run, const Body& body, Flow& flow) {
  Capture capture(run);
  const LocalScope scope(run, &run.scope(), body);
  flow = run_block(run, body.block);
  return flow == Flow::kNext ? std::optional(Value::text(capture.take())) : std::nullopt;
}

void Target::assign(Run& run, Scope& scope, const Value& value) const {
  if (is_tuple) {
    run.set_position(at);
    if (!is_iterable(value)) refuse(fmt::format("{} cannot be taken apart", type_name(value)));
    const auto items = collect(run.budget(), value);
    if (items.size() != parts.size()) {
      refuse(fmt::format("{} values are needed here, there are {}", parts.size(), items.size()));
    }
    for (size_t i = 0; i < parts.size(); ++i)
      parts[i].assign(run, scope, items[i]);
    return;
  }
  run.budget().take(sizeof(Value));
  if (attribute.empty()) {
    scope.set(name, value);
    return;
  }
  run.set_position(at);
  const Value* space = run.find(name);
  if (space == nullptr || !space->is(Kind::kNamespace)) refuse("only a namespace has attributes that can be set");
  space->as<Namespace>().set(attribute, value);
}

Flow Data::run(Run& run) const {
  run.out().append(text_);
  return Flow::kNext;
}

Flow Print::run(Run& run) const {
  const Value value = value_->eval(run);
  run.set_position(value_->at());
  append_str(run.out(), value);
  return Flow::kNext;
}

Flow If::run(Run& run) const {
  for (const auto& [test, block] : branches_) {
    if (truth(test->eval(run))) return run_block(run, block);
  }
  return run_block(run, otherwise_);
}

std::shared_ptr<const List> For::chosen(Run& run, const Scope* outer, const Value& items) const {
  if (parts_.test == nullptr && items.is_sequence()) return std::static_pointer_cast<const List>(items.shared());
  run.budget().take(sizeof(List));
  auto list = std::make_shared<List>();
  if (parts_.test == nullptr) {
    list->items = collect(run.budget(), items);
  } else {
    Cursor cursor(run.budget(), items);
    LocalScope scope(run, outer, parts_.body.keeps);
    for (Value item; cursor.next(item);) {
      parts_.target.assign(run, *scope, item);
      if (!truth(parts_.test->eval(run))) continue;
      run.budget().take(sizeof(Value));
      list->items.push_back(item);
    }
  }
  list->depth = nested_depth(list->items);
  return list;
}

Flow For::run_over(Run& run, const Scope* outer, const Value& items, int64_t depth0) const {
  const Nested nested(run);
  run.budget().take(sizeof(Loop));
  auto loop = std::make_shared<Loop>();
  loop->items = chosen(run, outer, items);
  loop->depth = loop->items->depth;
  loop->depth0 = depth0;
  const LoopGuard guard(loop);
  if (parts_.recursive) {
    loop->recurse = [this, outer](Run& again, const Value& inner, int64_t depth) {
      Capture capture(again);
      run_over(again, outer, inner, depth);
      return Value::text(capture.take());
    };
  }
  // Python's for-else is otherwise: here the else runs unless a pass has come to its end.
  bool any_whole_pass = false;
  const auto& all = loop->items->items;
  for (size_t i = 0; i < all.size(); ++i) {
    run.budget().step();
    loop->index0 = static_cast<int64_t>(i);
    LocalScope scope(run, outer, parts_.body);
    scope->variables.reserve(4);
    parts_.target.assign(run, *scope, all[i]);
    scope->set(parts_.loop_name, Value::object(Kind::kLoop, loop));
    const Flow flow = run_block(run, parts_.body.block);
    if (flow == Flow::kBreak) break;
    any_whole_pass |= flow == Flow::kNext;
  }
  if (any_whole_pass || parts_.otherwise.block.empty()) return Flow::kNext;
  const LocalScope scope(run, outer, parts_.otherwise);
  return run_block(run, parts_.otherwise.block);
}

Flow For::run(Run& run) const {
  const Value items = parts_.items->eval(run);
  run.set_position(parts_.items->at());
  return run_over(run, &run.scope(), items, 0);
}

Flow Set::run(Run& run) const {
  const Value value = value_->eval(run);
  target_.assign(run, run.scope(), value);
  return Flow::kNext;
}

Flow SetBlock::run(Run& run) const {
  Flow flow = Flow::kNext;
  const auto text = captured(run, body_, flow);
  if (text) target_.assign(run, run.scope(), filtered(run, filters_, *text));
  return flow;
}

Flow FilterBlock::run(Run& run) const {
  Flow flow = Flow::kNext;
  const auto text = captured(run, body_, flow);
  if (text) append_str(run.out(), filtered(run, filters_, *text));
  return flow;
}

Flow With::run(Run& run) const {
  const Nested nested(run);
  std::vector<Value> values;
  // All values are computed outside, before the first name is set.
  for (const auto& [target, value] : values_)
    values.push_back(value->eval(run));
  LocalScope scope(run, &run.scope(), body_);
  for (size_t i = 0; i < values.size(); ++i)
    values_[i].first.assign(run, *scope, values[i]);
  return run_block(run, body_.block);
}

}  // namespace krait::chat_template
