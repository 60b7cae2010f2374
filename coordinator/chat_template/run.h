// One render: variables, output, what it has used up.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "coordinator/chat_template/function.h"
#include "coordinator/chat_template/position.h"
#include "coordinator/chat_template/value.h"

namespace krait::chat_template {

/// Names are numbers, given when the template is parsed.
using NameId = uint32_t;

struct Scope final {
  const Scope* parent = nullptr;
  std::vector<std::pair<NameId, Value>> variables;

  void set(NameId name, Value value);
  /// In this scope alone; nullptr where it is not.
  const Value* find_here(NameId name) const;
};

class Run final {
 public:
  explicit Run(int64_t now_s) : now_s_(now_s) { scope_ = &keep_scope(nullptr); }
  /// Namespaces may refer to each other in circles, and macros live in scopes that hold them.
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Budget& budget() { return budget_; }
  TextBuilder& out() { return *out_; }
  Scope& scope() { return *scope_; }
  int64_t now_s() const { return now_s_; }

  /// The variable, or nullptr.
  const Value* find(NameId name) const;

  /// A scope that lives as long as the render.
  Scope& keep_scope(const Scope* parent);
  Value make_namespace();

  /// Where the template is, for errors.
  void set_position(Position at) { at_ = at; }
  Position position() const { return at_; }

 private:
  friend class InScope;
  friend class Capture;

  Budget budget_;
  TextBuilder* out_ = nullptr;
  Scope* scope_ = nullptr;
  Position at_;
  const int64_t now_s_;
  std::deque<Scope> kept_scopes_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

/// Makes `scope` the one in use as long as this object lives.
class InScope final {
 public:
  InScope(Run& run, Scope& scope) : run_(run), before_(run.scope_) { run.scope_ = &scope; }
  ~InScope() { run_.scope_ = before_; }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Run& run_;
  Scope* const before_;
};

/// Collects the output as long as this object lives.
class Capture final {
 public:
  explicit Capture(Run& run) : run_(run), before_(run.out_), out_(run.budget_) { run.out_ = &out_; }
  ~Capture() { run_.out_ = before_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  std::shared_ptr<Text> take() { return out_.take(); }

 private:
  Run& run_;
  TextBuilder* const before_;
  TextBuilder out_;
};

/// Counts one call inside another.
class Nested final {
 public:
  explicit Nested(Run& run) : budget_(run.budget()) { budget_.enter(); }
  ~Nested() { budget_.leave(); }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  Budget& budget_;
};

}  // namespace krait::chat_template
