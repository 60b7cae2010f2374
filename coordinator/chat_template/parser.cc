#include "coordinator/chat_template/parser.h"

#include <algorithm>
#include <array>

#include "common/base/limits.h"

namespace krait::chat_template {
namespace {

std::string described(const Token& token) {
  switch (token.kind) {
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return "a number";
    default:
      return fmt::format("'{}'", token.text.substr(0, 40));
  }
}

}  // namespace

NameId NameTable::id(std::string_view name) {
  return ids_.try_emplace(std::string(name), static_cast<NameId>(ids_.size())).first->second;
}

std::optional<NameId> NameTable::find(std::string_view name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

Parser::Deeper::Deeper(Parser& parser) : parser_(parser) {
  if (++parser.depth_ > limits::kMaxTemplateSyntaxDepth) {
    --parser.depth_;
    fail(parser.peek().at, "the template nests too deeply");
  }
}

const Token& Parser::peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

bool Parser::take_operator(std::string_view op) {
  if (!peek().is_operator(op)) return false;
  take();
  return true;
}

bool Parser::take_name(std::string_view name) {
  if (!peek().is_name(name)) return false;
  take();
  return true;
}

Token Parser::expect(TokenKind kind, std::string_view what) {
  if (peek().kind != kind) fail(peek().at, fmt::format("expected {}, got {}", what, described(peek())));
  return take();
}

void Parser::expect_operator(std::string_view op) {
  if (!take_operator(op)) fail(peek().at, fmt::format("expected '{}', got {}", op, described(peek())));
}

void Parser::expect_name(std::string_view name) {
  if (!take_name(name)) fail(peek().at, fmt::format("expected '{}', got {}", name, described(peek())));
}

bool Parser::at_name_of(Words names) const {
  return std::any_of(names.begin(), names.end(), [&](auto name) { return peek().is_name(name); });
}

Block Parser::parse() {
  Block block = parse_block_until({});
  refuse_stray_safe();
  return block;
}

void Parser::refuse_stray_safe() const {
  if (safe_) fail(*safe_, "the filter 'safe' is only supported as the last one of what is printed");
}

/// Data, output and statements until a tag begins with one of `ends`, which is the next token then.
Block Parser::parse_block_until(Words ends) {
  const Deeper deeper(*this);
  Block block;
  while (peek().kind != TokenKind::kEnd) {
    const Token token = take();
    if (token.kind == TokenKind::kData) {
      block.push_back(std::make_unique<Data>(token.text));
    } else if (token.kind == TokenKind::kVariableBegin) {
      block.push_back(parse_output());
      expect(TokenKind::kVariableEnd, "'}}'");
    } else {
      if (at_name_of(ends)) return block;
      block.push_back(parse_statement());
      expect(TokenKind::kBlockEnd, "'%}'");
    }
  }
  if (ends.size() > 0) fail(peek().at, fmt::format("'{}' is missing", *(ends.end() - 1)));
  return block;
}

/// The end of a statement's tag and what stands behind it.
Block Parser::parse_body(Words ends) {
  take_operator(":");
  expect(TokenKind::kBlockEnd, "'%}'");
  return parse_block_until(ends);
}

Body Parser::parse_scope_until(std::string_view end) {
  const int before = macros_;
  Body body{parse_body({end}), false};
  expect_name(end);
  body.keeps = macros_ != before;
  return body;
}

StatementPtr Parser::parse_output() {
  ExpressionPtr value = parse_tuple(true, false);
  if (dynamic_cast<const Safe*>(value.get()) != nullptr && safe_ && safe_->line == value->at().line &&
      safe_->column == value->at().column) {
    safe_.reset();
  }
  refuse_stray_safe();
  return std::make_unique<Print>(std::move(value));
}

StatementPtr Parser::parse_statement() {
  const Token& word = peek();
  if (word.kind != TokenKind::kName) fail(word.at, fmt::format("expected a statement, got {}", described(word)));
  using Rule = StatementPtr (Parser::*)();
  static constexpr std::pair<std::string_view, Rule> kRules[] = {
      {"if", &Parser::parse_if},
      {"for", &Parser::parse_for},
      {"set", &Parser::parse_set},
      {"with", &Parser::parse_with},
      {"generation", &Parser::parse_with},
      {"macro", &Parser::parse_macro},
      {"call", &Parser::parse_call_block},
      {"filter", &Parser::parse_filter_block},
      {"break", &Parser::parse_loop_control},
      {"continue", &Parser::parse_loop_control},
  };
  for (const auto& [name, rule] : kRules) {
    if (word.text == name) return (this->*rule)();
  }
  fail(word.at, fmt::format("the statement '{}' is not supported", word.text));
}

StatementPtr Parser::parse_if() {
  If::Branches branches;
  Block otherwise;
  expect_name("if");
  while (true) {
    ExpressionPtr test = parse_tuple(false, false);
    Block block = parse_body({"elif", "else", "endif"});
    branches.emplace_back(std::move(test), std::move(block));
    if (take_name("elif")) continue;
    if (take_name("else")) otherwise = parse_body({"endif"});
    expect_name("endif");
    return std::make_unique<If>(std::move(branches), std::move(otherwise));
  }
}

StatementPtr Parser::parse_for() {
  expect_name("for");
  const int before = macros_;
  For::Parts parts;
  parts.loop_name = names_.id("loop");
  ++loops_;  // the target may not be named loop either
  parts.target = parse_target(false);
  expect_name("in");
  parts.items = parse_tuple(false, false);
  if (take_name("if")) parts.test = parse_expression();
  parts.recursive = take_name("recursive");
  parts.body.block = parse_body({"else", "endfor"});
  --loops_;
  if (take_name("else")) parts.otherwise.block = parse_body({"endfor"});
  expect_name("endfor");
  parts.body.keeps = parts.otherwise.keeps = macros_ != before;
  return std::make_unique<For>(std::move(parts));
}

StatementPtr Parser::parse_loop_control() {
  const Token word = take();
  if (loops_ == 0) fail(word.at, fmt::format("'{}' stands outside of a loop", word.text));
  return std::make_unique<LoopControl>(word.text == "break" ? Flow::kBreak : Flow::kContinue);
}

Target Parser::parse_target_part(bool with_attributes) {
  const Deeper deeper(*this);
  if (take_operator("(")) {
    Target target = parse_target(with_attributes);
    expect_operator(")");
    return target;
  }
  const Token name = expect(TokenKind::kName, "a name");
  static constexpr auto kConstants =
      std::to_array<std::string_view>({"true", "false", "none", "True", "False", "None"});
  if (std::find(kConstants.begin(), kConstants.end(), name.text) != kConstants.end()) {
    fail(name.at, fmt::format("'{}' cannot be assigned to", name.text));
  }
  Target target{name.at, names_.id(name.text), "", {}, false};
  if (with_attributes && take_operator(".")) {
    target.attribute = expect(TokenKind::kName, "a name").text;
  } else if (loops_ > 0 && name.text == "loop") {
    fail(name.at, "'loop' cannot be assigned to in a loop");
  }
  return target;
}

Target Parser::parse_target(bool with_attributes) {
  Target first = parse_target_part(with_attributes);
  if (!peek().is_operator(",")) return first;
  Target tuple{first.at, 0, "", {}, true};
  tuple.parts.push_back(std::move(first));
  while (take_operator(",")) {
    const bool ends = peek().kind != TokenKind::kName && !peek().is_operator("(");
    if (ends || peek().is_name("in")) break;
    tuple.parts.push_back(parse_target_part(with_attributes));
  }
  return tuple;
}

StatementPtr Parser::parse_set() {
  expect_name("set");
  Target target = parse_target(true);
  if (take_operator("=")) return std::make_unique<Set>(std::move(target), parse_tuple(true, false));
  Filters filters = parse_block_filters(false);
  return std::make_unique<SetBlock>(std::move(target), std::move(filters), parse_scope_until("endset"));
}

/// with and generation: a body with variables of its own.
StatementPtr Parser::parse_with() {
  const bool is_with = take().text == "with";
  std::vector<std::pair<Target, ExpressionPtr>> values;
  while (is_with && peek().kind != TokenKind::kBlockEnd && !peek().is_operator(":")) {
    if (!values.empty()) expect_operator(",");
    Target target = parse_target(false);
    expect_operator("=");
    values.emplace_back(std::move(target), parse_expression());
  }
  return std::make_unique<With>(std::move(values), parse_scope_until(is_with ? "endwith" : "endgeneration"));
}

void Parser::parse_parameters(MacroParts& parts) {
  expect_operator("(");
  while (!peek().is_operator(")")) {
    if (!parts.parameters.empty()) expect_operator(",");
    const Token name = expect(TokenKind::kName, "a name");
    if (name.text == "caller" || name.text == "varargs" || name.text == "kwargs") {
      fail(name.at, fmt::format("a parameter named '{}' is not supported", name.text));
    }
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
  parse_parameters(parts);
  parse_macro_body(parts, "endmacro");
  return std::make_unique<MacroDefinition>(name.name, std::move(parts));
}

StatementPtr Parser::parse_call_block() {
  MacroParts parts;
  parts.at = peek().at;
  expect_name("call");
  if (peek().is_operator("(")) parse_parameters(parts);
  ExpressionPtr expression = parse_expression();
  const auto* call = dynamic_cast<const Call*>(expression.get());
  if (call == nullptr) fail(parts.at, "a call is expected");
  expression.release();
  std::unique_ptr<const Call> owned(call);
  parse_macro_body(parts, "endcall");
  return std::make_unique<CallBlock>(std::move(owned), std::move(parts));
}

StatementPtr Parser::parse_filter_block() {
  expect_name("filter");
  Filters filters = parse_block_filters(true);
  return std::make_unique<FilterBlock>(std::move(filters), parse_scope_until("endfilter"));
}

}  // namespace krait::chat_template
