#include "coordinator/chat_template/cycler.h"

#include "coordinator/chat_template/run.h"

namespace krait::chat_template {
namespace {

/// Nothing when it is called first, and the separator from then on.
class Joiner final : public Function {
 public:
  explicit Joiner(const Value& separator) : separator_(separator) { depth = nested_depth({separator}); }

  Value call(Run&, Arguments arguments) override {
    const Parameters given(arguments, "joiner", {});
    return std::exchange(used_, true) ? separator_ : Value::string("", true);
  }

 private:
  const Value separator_;
  bool used_ = false;
};

Value next(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "next", {});
  auto& cycler = self.as<Cycler>();
  Value item = cycler.current();
  cycler.at = (cycler.at + 1) % cycler.items.size();
  return item;
}

Value reset(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "reset", {});
  self.as<Cycler>().at = 0;
  return Value::none();
}

constexpr MethodRow kRows[] = {{"next", next}, {"reset", reset}};

}  // namespace

Value make_cycler(Run& run, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) refuse("cycler() needs items");
  run.budget().take(sizeof(Cycler) + arguments.positional.size() * sizeof(Value));
  auto cycler = std::make_shared<Cycler>();
  cycler->items = arguments.positional;
  cycler->depth = nested_depth(cycler->items);
  return Value::object(Kind::kCycler, std::move(cycler));
}

Value make_joiner(Run& run, const Arguments& arguments) {
  const Parameters given(arguments, "joiner", {"sep"});
  const Value separator = given.at(0) != nullptr ? given.needed(0) : Value::string(", ", true);
  run.budget().take(sizeof(Joiner));
  return Value::object(Kind::kFunction, std::make_shared<Joiner>(separator));
}

std::span<const MethodRow> cycler_methods() {
  return kRows;
}

}  // namespace krait::chat_template
