// The expressions of a template, ready to be computed.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/chat_template/attributes.h"
#include "coordinator/chat_template/operators.h"
#include "coordinator/chat_template/run.h"

namespace krait::chat_template {

class Expression {
 public:
  /// Throws SyntaxError where `below`, the depth of what is inside, is at its limit.
  Expression(Position at, int below);
  virtual ~Expression() = default;
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;

  Value eval(Run& run) const {
    const Nested nested(run);
    run.budget().step();
    return compute(run);
  }
  Position at() const { return at_; }
  int depth() const { return depth_; }

 private:
  virtual Value compute(Run& run) const = 0;

  const Position at_;
  const int depth_;
};

using ExpressionPtr = std::unique_ptr<const Expression>;

/// The depth of the deepest of some expressions, any of which may be null.
int depth_of(std::initializer_list<const Expression*> expressions);
int depth_of(const std::vector<ExpressionPtr>& expressions);

class Constant final : public Expression {
 public:
  Constant(Position at, Value value) : Expression(at, 0), value_(std::move(value)) {}
  const Value& value() const { return value_; }

 private:
  Value compute(Run&) const override { return value_; }
  const Value value_;
};

class NameRef final : public Expression {
 public:
  NameRef(Position at, NameId id, const std::string& name);
  /// The function of every template that the name means in this run, or nullptr.
  Builtin::Body global(const Run& run) const { return body_ != nullptr && !run.find(id_) ? body_ : nullptr; }

 private:
  Value compute(Run& run) const override;

  const NameId id_;
  const Builtin::Body body_;
  const Value missing_;
};

class SequenceLiteral final : public Expression {
 public:
  SequenceLiteral(Position at, Kind kind, std::vector<ExpressionPtr> items)
      : Expression(at, depth_of(items)), kind_(kind), items_(std::move(items)) {}

 private:
  Value compute(Run& run) const override;

  const Kind kind_;
  const std::vector<ExpressionPtr> items_;
};

class DictLiteral final : public Expression {
 public:
  using Pairs = std::vector<std::pair<ExpressionPtr, ExpressionPtr>>;
  DictLiteral(Position at, Pairs pairs) : Expression(at, depth_of_pairs(pairs)), pairs_(std::move(pairs)) {}

 private:
  static int depth_of_pairs(const Pairs& pairs);
  Value compute(Run& run) const override;

  const Pairs pairs_;
};

/// object.name
class Attribute final : public Expression {
 public:
  Attribute(Position at, ExpressionPtr object, std::string name)
      : Expression(at, object->depth()), object_(std::move(object)), name_(std::move(name)) {}
  const Expression& object() const { return *object_; }
  const AttributeName& name() const { return name_; }

 private:
  Value compute(Run& run) const override;

  const ExpressionPtr object_;
  const AttributeName name_;
};

/// object[index]
class Item final : public Expression {
 public:
  Item(Position at, ExpressionPtr object, ExpressionPtr index)
      : Expression(at, depth_of({object.get(), index.get()})), object_(std::move(object)), index_(std::move(index)) {}

 private:
  Value compute(Run& run) const override;

  const ExpressionPtr object_;
  const ExpressionPtr index_;
};

/// object[start:stop:step], each of which may be null.
class SliceOf final : public Expression {
 public:
  SliceOf(Position at, ExpressionPtr object, std::vector<ExpressionPtr> bounds)
      : Expression(at, std::max(object->depth(), depth_of(bounds))),
        object_(std::move(object)),
        bounds_(std::move(bounds)) {}

 private:
  Value compute(Run& run) const override;

  const ExpressionPtr object_;
  const std::vector<ExpressionPtr> bounds_;
};

struct CallArguments final {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional;  // *expression, may be null
  ExpressionPtr more_named;       // **expression, may be null

  Arguments eval(Run& run) const;
  int depth() const;
  bool any() const {
    return !positional.empty() || !named.empty() || more_positional != nullptr || more_named != nullptr;
  }
};

class Call final : public Expression {
 public:
  Call(Position at, ExpressionPtr callee, CallArguments arguments)
      : Expression(at, std::max(callee->depth(), arguments.depth())),
        callee_(std::move(callee)),
        arguments_(std::move(arguments)) {}

  /// The call, with a `caller` for the macro that it calls.
  Value call_with(Run& run, const Value* caller) const;

 private:
  Value compute(Run& run) const override { return call_with(run, nullptr); }
  static Value call_value(Run& run, const Value& callee, Arguments arguments);

  const ExpressionPtr callee_;
  const CallArguments arguments_;
};

/// A filter or a test; both take a value and arguments.
class Applied final : public Expression {
 public:
  Applied(Position at, ExpressionPtr subject, Method method, CallArguments arguments)
      : Expression(at, std::max(depth_of({subject.get()}), arguments.depth())),
        subject_(std::move(subject)),
        method_(method),
        arguments_(std::move(arguments)) {}

  /// The filter over a value that is not an expression: what a block has made.
  Value apply_to(Run& run, const Value& subject) const;

 private:
  Value compute(Run& run) const override { return apply_to(run, subject_->eval(run)); }

  const ExpressionPtr subject_;  // null for the filter of a block
  const Method method_;
  const CallArguments arguments_;
};

/// x | safe, escape or forceescape. In jinja2 they give a text that changes how others join it; the parser sees to it
/// that here nothing does but print it.
class Markup final : public Expression {
 public:
  enum class Escapes : uint8_t { kNothing, kUnlessMarkup, kAlways };
  Markup(Position at, std::string name, Escapes escapes, ExpressionPtr inner);

  const std::string& name() const { return name_; }

 private:
  Value compute(Run& run) const override;
  const std::string name_;
  const bool escapes_;
  const ExpressionPtr inner_;
};

class Not final : public Expression {
 public:
  Not(Position at, ExpressionPtr inner) : Expression(at, inner->depth()), inner_(std::move(inner)) {}

 private:
  Value compute(Run& run) const override { return Value::boolean(!truth(inner_->eval(run))); }
  const ExpressionPtr inner_;
};

class Signed final : public Expression {
 public:
  Signed(Position at, ExpressionPtr inner, bool negative)
      : Expression(at, inner->depth()), inner_(std::move(inner)), negative_(negative) {}

 private:
  Value compute(Run& run) const override;
  const ExpressionPtr inner_;
  const bool negative_;
};

class Binary final : public Expression {
 public:
  Binary(Position at, Operator op, ExpressionPtr left, ExpressionPtr right)
      : Expression(at, depth_of({left.get(), right.get()})),
        op_(op),
        left_(std::move(left)),
        right_(std::move(right)) {}

 private:
  Value compute(Run& run) const override;
  const Operator op_;
  const ExpressionPtr left_;
  const ExpressionPtr right_;
};

/// a ~ b ~ c
class Joined final : public Expression {
 public:
  Joined(Position at, std::vector<ExpressionPtr> parts) : Expression(at, depth_of(parts)), parts_(std::move(parts)) {}

 private:
  Value compute(Run& run) const override;
  const std::vector<ExpressionPtr> parts_;
};

/// a < b <= c in d: each with its neighbour.
class Compared final : public Expression {
 public:
  using Rest = std::vector<std::pair<Comparison, ExpressionPtr>>;
  Compared(Position at, ExpressionPtr first, Rest rest)
      : Expression(at, depth_of_all(*first, rest)), first_(std::move(first)), rest_(std::move(rest)) {}

 private:
  static int depth_of_all(const Expression& first, const Rest& rest);
  Value compute(Run& run) const override;
  const ExpressionPtr first_;
  const Rest rest_;
};

/// `and` and `or`: the first value that decides, or the last.
class Logical final : public Expression {
 public:
  Logical(Position at, bool is_and, ExpressionPtr left, ExpressionPtr right)
      : Expression(at, depth_of({left.get(), right.get()})),
        is_and_(is_and),
        left_(std::move(left)),
        right_(std::move(right)) {}

 private:
  Value compute(Run& run) const override;
  const bool is_and_;
  const ExpressionPtr left_;
  const ExpressionPtr right_;
};

/// a if b else c; without c undefined.
class Conditional final : public Expression {
 public:
  Conditional(Position at, ExpressionPtr test, ExpressionPtr yes, ExpressionPtr no)
      : Expression(at, depth_of({test.get(), yes.get(), no.get()})),
        test_(std::move(test)),
        yes_(std::move(yes)),
        no_(std::move(no)) {}

  const Expression& yes() const { return *yes_; }
  const Expression* no() const { return no_.get(); }

 private:
  Value compute(Run& run) const override;
  const ExpressionPtr test_;
  const ExpressionPtr yes_;
  const ExpressionPtr no_;
};

}  // namespace krait::chat_template
