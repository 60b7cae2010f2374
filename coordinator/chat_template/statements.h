// The statements of a template, ready to be run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/chat_template/expressions.h"
#include "coordinator/chat_template/frames.h"

namespace krait::chat_template {

/// How a statement ended: on to the next one, or out of the innermost loop.
enum class Flow : uint8_t { kNext, kBreak, kContinue };

class Statement {
 public:
  Statement() = default;
  virtual ~Statement() = default;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  virtual Flow run(Run& run) const = 0;
};

using StatementPtr = std::unique_ptr<const Statement>;
using Block = std::vector<StatementPtr>;

/// A body with variables of its own. `keeps`: macros are made in it, which may outlive it.
struct Body final {
  Block block;
  bool keeps = false;
  std::shared_ptr<const HiddenNames> hidden;
};

Flow run_block(Run& run, const Block& block);
/// The body's output, in a scope of its own; nothing where a break or continue leaves it.
std::optional<Value> captured(Run& run, const Body& body, Flow& flow);

void hide(Scope& scope, const HiddenNames& names);

/// Variables of a body, as long as this object lives, or as long as the render where they are kept.
class LocalScope final {
 public:
  LocalScope(Run& run, const Scope* parent, bool keeps)
      : own_{parent, {}}, scope_(keeps ? run.keep_scope(parent) : own_), in_(run, scope_) {}
  LocalScope(Run& run, const Scope* parent, const Body& body) : LocalScope(run, parent, body.keeps) {
    hide(scope_, *body.hidden);
  }
  Scope& operator*() { return scope_; }
  Scope* operator->() { return &scope_; }

 private:
  Scope own_;
  Scope& scope_;
  InScope in_;
};

/// What is assigned to: a name, an attribute of a namespace, or several of them.
struct Target final {
  Position at;
  NameId name = 0;
  std::string attribute;      // not empty: name.attribute
  std::vector<Target> parts;  // of a tuple
  bool is_tuple = false;

  /// Assigns in `scope`; the attribute's namespace is looked up in the run.
  void assign(Run& run, Scope& scope, const Value& value) const;
};

class Data final : public Statement {
 public:
  explicit Data(std::string text) : text_(std::move(text)) {}
  Flow run(Run& run) const override;

 private:
  const std::string text_;
};

class Print final : public Statement {
 public:
  explicit Print(ExpressionPtr value) : value_(std::move(value)) {}
  Flow run(Run& run) const override;

 private:
  const ExpressionPtr value_;
};

/// Statements as one.
class Sequence final : public Statement {
 public:
  explicit Sequence(Block block) : block_(std::move(block)) {}
  Flow run(Run& run) const override { return run_block(run, block_); }

 private:
  const Block block_;
};

class If final : public Statement {
 public:
  using Branches = std::vector<std::pair<ExpressionPtr, Block>>;
  If(Branches branches, Block otherwise) : branches_(std::move(branches)), otherwise_(std::move(otherwise)) {}
  Flow run(Run& run) const override;

 private:
  const Branches branches_;
  const Block otherwise_;
};

class For final : public Statement {
 public:
  struct Parts final {
    Target target;
    ExpressionPtr items;
    ExpressionPtr test;  // may be null
    bool recursive = false;
    Body body;
    Body otherwise;
    NameId loop_name = 0;
  };
  explicit For(Parts parts) : parts_(std::move(parts)) {}
  Flow run(Run& run) const override;

 private:
  /// kBreak and kContinue come from the `else`: they are for the loop around.
  Flow run_over(Run& run, const Scope* outer, const Value& items, int64_t depth0) const;
  std::shared_ptr<const List> chosen(Run& run, const Scope* outer, const Value& items) const;

  const Parts parts_;
};

class LoopControl final : public Statement {
 public:
  explicit LoopControl(Flow flow) : flow_(flow) {}
  Flow run(Run&) const override { return flow_; }

 private:
  const Flow flow_;
};

class Set final : public Statement {
 public:
  Set(Target target, ExpressionPtr value) : target_(std::move(target)), value_(std::move(value)) {}
  Flow run(Run& run) const override;

 private:
  const Target target_;
  const ExpressionPtr value_;
};

using Filters = std::vector<std::unique_ptr<const Applied>>;

/// {% set x | filter %}...{% endset %}
class SetBlock final : public Statement {
 public:
  SetBlock(Target target, Filters filters, Body body)
      : target_(std::move(target)), filters_(std::move(filters)), body_(std::move(body)) {}
  Flow run(Run& run) const override;

 private:
  const Target target_;
  const Filters filters_;
  const Body body_;
};

class FilterBlock final : public Statement {
 public:
  FilterBlock(Filters filters, Body body) : filters_(std::move(filters)), body_(std::move(body)) {}
  Flow run(Run& run) const override;

 private:
  const Filters filters_;
  const Body body_;
};

/// A body with variables of its own: with, and the generation tags, which mark what the model says and change nothing.
class With final : public Statement {
 public:
  With(std::vector<std::pair<Target, ExpressionPtr>> values, Body body)
      : values_(std::move(values)), body_(std::move(body)) {}
  Flow run(Run& run) const override;

 private:
  const std::vector<std::pair<Target, ExpressionPtr>> values_;
  const Body body_;
};

/// What a macro, or the body of a call block, takes and makes.
struct MacroParts final {
  Position at;
  std::string name;  // empty for a call block
  struct Parameter final {
    NameId id = 0;
    std::string name;
    ExpressionPtr otherwise;  // may be null
  };
  std::vector<Parameter> parameters;
  Body body;
  // Names that the body uses, and for which it therefore gets a value.
  std::optional<NameId> caller;
  std::optional<NameId> varargs;
  std::optional<NameId> kwargs;
};

class MacroDefinition final : public Statement {
 public:
  MacroDefinition(NameId name, MacroParts parts) : name_(name), parts_(std::move(parts)) {}
  Flow run(Run& run) const override;

 private:
  const NameId name_;
  const MacroParts parts_;
};

class CallBlock final : public Statement {
 public:
  CallBlock(std::unique_ptr<const Call> call, MacroParts parts) : call_(std::move(call)), parts_(std::move(parts)) {}
  Flow run(Run& run) const override;

 private:
  const std::unique_ptr<const Call> call_;
  const MacroParts parts_;
};

}  // namespace krait::chat_template
