// Macros: what they take, and the two statements that make them.
#include <algorithm>

#include "coordinator/chat_template/python_text.h"
#include "coordinator/chat_template/statements.h"

namespace krait::chat_template {
namespace {

/// A macro with the scope that it was defined in. Both outlive it: the template and the render own them.
class Macro final : public Function {
 public:
  Macro(const MacroParts& parts, const Scope& defined_in) : parts_(parts), defined_in_(defined_in) {}

  Value call(Run& run, Arguments arguments) override {
    const Nested nested(run);
    run.budget().step();
    Capture capture(run);
    LocalScope scope(run, &defined_in_, parts_.body);
    bind(run, *scope, arguments);
    run_block(run, parts_.body.block);
    return Value::text(capture.take());
  }

  void append_repr(TextBuilder& out) const override {
    if (parts_.name.empty()) return out.append("<Macro anonymous>");
    out.append("<Macro ");
    krait::chat_template::append_repr(out, Value::string(parts_.name, true));
    out.append(">");
  }

 private:
  static std::optional<Value> take_named(Arguments& arguments, std::string_view name) {
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& argument) { return argument.first == name; });
    if (found == arguments.named.end()) return std::nullopt;
    Value value = std::move(found->second);
    arguments.named.erase(found);
    return value;
  }

  static Value missing(std::string_view name) {
    return Value::undefined(std::make_shared<Text>(fmt::format("parameter '{}' was not provided", name), true));
  }

  void bind(Run& run, Scope& scope, Arguments& arguments) const {
    const size_t by_place = std::min(arguments.positional.size(), parts_.parameters.size());
    std::vector<std::optional<Value>> given(parts_.parameters.size());
    for (size_t i = 0; i < given.size(); ++i) {
      given[i] =
          i < by_place ? std::optional(arguments.positional[i]) : take_named(arguments, parts_.parameters[i].name);
    }
    std::optional<Value> caller;
    if (parts_.caller) caller = take_named(arguments, "caller");
    if (!parts_.kwargs && !arguments.named.empty()) {
      refuse(fmt::format("the macro '{}' takes no argument '{}'", parts_.name, arguments.named.front().first));
    }
    if (!parts_.varargs && arguments.positional.size() > by_place) {
      refuse(fmt::format("the macro '{}' takes not more than {} arguments", parts_.name, parts_.parameters.size()));
    }
    run.budget().take(given.size() * sizeof(Value));
    if (parts_.caller) {
      const bool there = caller && !caller->is(Kind::kNone);
      scope.set(*parts_.caller, there ? *caller : missing("caller"));
    }
    if (parts_.kwargs) {
      auto rest = std::make_shared<Dict>();
      for (auto& [name, value] : arguments.named)
        rest->set(Value::string(name, true), std::move(value));
      scope.set(*parts_.kwargs, Value::dict(std::move(rest)));
    }
    if (parts_.varargs) {
      std::vector<Value> rest(arguments.positional.begin() + static_cast<std::ptrdiff_t>(by_place),
                              arguments.positional.end());
      scope.set(*parts_.varargs, Value::tuple(std::move(rest)));
    }
    // Those behind see those before.
    for (size_t i = 0; i < given.size(); ++i) {
      const auto& parameter = parts_.parameters[i];
      scope.set(parameter.id, given[i]                         ? *given[i]
                              : parameter.otherwise != nullptr ? parameter.otherwise->eval(run)
                                                               : missing(parameter.name));
    }
  }

  const MacroParts& parts_;
  const Scope& defined_in_;
};

Value make_macro(Run& run, const MacroParts& parts) {
  run.budget().take(sizeof(Macro));
  return Value::object(Kind::kFunction, std::make_shared<Macro>(parts, run.scope()));
}

}  // namespace

Flow MacroDefinition::run(Run& run) const {
  run.scope().set(name_, make_macro(run, parts_));
  return Flow::kNext;
}

Flow CallBlock::run(Run& run) const {
  const Value caller = make_macro(run, parts_);
  const Value value = call_->call_with(run, &caller);
  append_str(run.out(), value);
  return Flow::kNext;
}

}  // namespace krait::chat_template
