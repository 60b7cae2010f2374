// The parser's rules for macros and call blocks.
#include <algorithm>

#include "coordinator/chat_template/parser.h"

namespace krait::chat_template {

void Parser::parse_parameters(MacroParts& parts) {
  expect_operator("(");
  while (!peek().is_operator(")")) {
    if (!parts.parameters.empty()) expect_operator(",");
    const Token name = expect(TokenKind::kName, "a name");
    if (name.text == "caller" || name.text == "varargs" || name.text == "kwargs") {
      fail(name.at, fmt::format("a parameter named '{}' is not supported", name.text));
    }
    mention(Mention::Kind::kGiven, names_.id(name.text));
    for (const auto& other : parts.parameters) {
      if (other.name == name.text) fail(name.at, fmt::format("the parameter '{}' stands twice", name.text));
    }
    ExpressionPtr otherwise;
    if (take_operator("=")) {
      otherwise = parse_expression();
    } else if (!parts.parameters.empty() && parts.parameters.back().otherwise != nullptr) {
      fail(name.at, "a parameter without a default stands behind one that has it");
    }
    parts.parameters.push_back({names_.id(name.text), name.text, std::move(otherwise)});
  }
  expect_operator(")");
}

void Parser::parse_macro_body(MacroParts& parts, std::string_view end) {
  int before[3];
  std::copy(std::begin(special_names_), std::end(special_names_), before);
  // break and continue do not reach out of a macro.
  const int loops = std::exchange(loops_, 0);
  parts.body = parse_scope_until(end);
  loops_ = loops;
  if (special_names_[0] != before[0]) parts.caller = names_.id("caller");
  if (special_names_[1] != before[1]) parts.varargs = names_.id("varargs");
  if (special_names_[2] != before[2]) parts.kwargs = names_.id("kwargs");
  ++macros_;
}

StatementPtr Parser::parse_macro() {
  expect_name("macro");
  MacroParts parts;
  const Target name = parse_target_part(false);
  parts.at = name.at;
  parts.name = tokens_[at_ - 1].text;
  mention(Mention::Kind::kSet, name);
  const InFrame frame(*this);
  parse_parameters(parts);
  parse_macro_body(parts, "endmacro");
  return std::make_unique<MacroDefinition>(name.name, std::move(parts));
}

StatementPtr Parser::parse_call_block() {
  MacroParts parts;
  parts.at = peek().at;
  expect_name("call");
  Frame& inside = frame_->inside.emplace_back();
  if (peek().is_operator("(")) {
    const InFrame frame(*this, inside);
    parse_parameters(parts);
  }
  ExpressionPtr expression = parse_expression();
  const auto* call = dynamic_cast<const Call*>(expression.get());
  if (call == nullptr) fail(parts.at, "a call is expected");
  std::unique_ptr<const Call> owned(call);
  static_cast<void>(expression.release());
  const InFrame frame(*this, inside);
  parse_macro_body(parts, "endcall");
  return std::make_unique<CallBlock>(std::move(owned), std::move(parts));
}

}  // namespace krait::chat_template
