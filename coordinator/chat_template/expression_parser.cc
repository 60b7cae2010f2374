// The parser's rules for expressions, from the loosest binding to the tightest.
#include <array>

#include "coordinator/chat_template/parser.h"

namespace krait::chat_template {
namespace {

constexpr auto kSpecialNames = std::to_array<std::string_view>({"caller", "varargs", "kwargs"});
/// What every template of jinja2 has and what is not here.
constexpr auto kUnsupportedNames = std::to_array<std::string_view>({"lipsum", "self"});

}  // namespace

ExpressionPtr Parser::parse_expression(bool with_condition) {
  const Deeper deeper(*this);
  ExpressionPtr value = parse_or();
  while (with_condition && peek().is_name("if")) {
    const Position at = take().at;
    ExpressionPtr test = parse_or();
    ExpressionPtr otherwise;
    if (take_name("else")) otherwise = parse_expression();
    value = std::make_unique<Conditional>(at, std::move(test), std::move(value), std::move(otherwise));
  }
  return value;
}

bool Parser::at_tuple_end() const {
  const TokenKind kind = peek().kind;
  return kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd || peek().is_operator(")") ||
         peek().is_name("recursive");
}

ExpressionPtr Parser::parse_tuple(bool with_condition, bool in_parentheses) {
  const Position at = peek().at;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (!at_tuple_end()) {
    items.push_back(parse_expression(with_condition));
    if (!take_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (items.empty() && !in_parentheses) fail(peek().at, "an expression is missing");
  return std::make_unique<SequenceLiteral>(at, Kind::kTuple, std::move(items));
}

ExpressionPtr Parser::parse_or() {
  ExpressionPtr left = parse_and();
  while (peek().is_name("or")) {
    const Position at = take().at;
    left = std::make_unique<Logical>(at, false, std::move(left), parse_and());
  }
  return left;
}

ExpressionPtr Parser::parse_and() {
  ExpressionPtr left = parse_not();
  while (peek().is_name("and")) {
    const Position at = take().at;
    left = std::make_unique<Logical>(at, true, std::move(left), parse_not());
  }
  return left;
}

ExpressionPtr Parser::parse_not() {
  if (!peek().is_name("not")) return parse_comparison();
  const Deeper deeper(*this);
  const Position at = take().at;
  return std::make_unique<Not>(at, parse_not());
}

std::optional<Comparison> Parser::take_comparison() {
  static constexpr std::pair<std::string_view, Comparison> kOperators[] = {
      {"==", Comparison::kEqual},     {"!=", Comparison::kNotEqual}, {"<", Comparison::kLess},
      {"<=", Comparison::kLessEqual}, {">", Comparison::kGreater},   {">=", Comparison::kGreaterEqual},
  };
  for (const auto& [text, op] : kOperators) {
    if (take_operator(text)) return op;
  }
  if (take_name("in")) return Comparison::kIn;
  if (!peek().is_name("not") || !peek(1).is_name("in")) return std::nullopt;
  take();
  take();
  return Comparison::kNotIn;
}

ExpressionPtr Parser::parse_comparison() {
  const Position at = peek().at;
  ExpressionPtr first = parse_sum();
  Compared::Rest rest;
  while (const auto op = take_comparison())
    rest.emplace_back(*op, parse_sum());
  if (rest.empty()) return first;
  return std::make_unique<Compared>(at, std::move(first), std::move(rest));
}

ExpressionPtr Parser::parse_sum() {
  ExpressionPtr left = parse_joined();
  while (peek().is_operator("+") || peek().is_operator("-")) {
    const Token op = take();
    left = std::make_unique<Binary>(op.at, op.text == "+" ? Operator::kAdd : Operator::kSubtract, std::move(left),
                                    parse_joined());
  }
  return left;
}

ExpressionPtr Parser::parse_joined() {
  const Position at = peek().at;
  std::vector<ExpressionPtr> parts;
  do {
    parts.push_back(parse_product());
  } while (take_operator("~"));
  if (parts.size() == 1) return std::move(parts.front());
  for (const auto& part : parts)
    settle_markup(*part);
  return std::make_unique<Joined>(at, std::move(parts));
}

ExpressionPtr Parser::parse_product() {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"*", Operator::kMultiply}, {"/", Operator::kDivide}, {"//", Operator::kFloorDivide}, {"%", Operator::kModulo}};
  ExpressionPtr left = parse_power();
  for (bool found = true; found;) {
    found = false;
    for (const auto& [text, op] : kOperators) {
      if (!peek().is_operator(text)) continue;
      const Position at = take().at;
      left = std::make_unique<Binary>(at, op, std::move(left), parse_power());
      found = true;
    }
  }
  return left;
}

/// From the left, unlike Python's.
ExpressionPtr Parser::parse_power() {
  ExpressionPtr left = parse_unary(true);
  while (peek().is_operator("**")) {
    const Position at = take().at;
    left = std::make_unique<Binary>(at, Operator::kPower, std::move(left), parse_unary(true));
  }
  return left;
}

ExpressionPtr Parser::parse_unary(bool with_filters) {
  const Deeper deeper(*this);
  const Position at = peek().at;
  ExpressionPtr node;
  if (take_operator("-")) {
    node = std::make_unique<Signed>(at, parse_unary(false), true);
  } else if (take_operator("+")) {
    node = std::make_unique<Signed>(at, parse_unary(false), false);
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filters ? parse_filters(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::parse_named() {
  const Token name = take();
  const std::string& text = name.text;
  if (text == "true" || text == "True") return std::make_unique<Constant>(name.at, Value::boolean(true));
  if (text == "false" || text == "False") return std::make_unique<Constant>(name.at, Value::boolean(false));
  if (text == "none" || text == "None") return std::make_unique<Constant>(name.at, Value::none());
  if (is_one_of(kUnsupportedNames, text)) fail(name.at, fmt::format("'{}' is not supported", text));
  for (size_t i = 0; i < kSpecialNames.size(); ++i)
    special_names_[i] += text == kSpecialNames[i] ? 1 : 0;
  mention(Mention::Kind::kRead, names_.id(text));
  return std::make_unique<NameRef>(name.at, names_.id(text), text);
}

ExpressionPtr Parser::parse_primary() {
  const Position at = peek().at;
  switch (peek().kind) {
    case TokenKind::kName:
      return parse_named();
    case TokenKind::kString: {
      std::string text;
      while (peek().kind == TokenKind::kString)
        text += take().text;
      return std::make_unique<Constant>(at, Value::string(std::move(text), true));
    }
    case TokenKind::kInteger:
      return std::make_unique<Constant>(at, Value::integer(take().integer));
    case TokenKind::kFloat:
      return std::make_unique<Constant>(at, Value::real(take().real));
    default:
      break;
  }
  if (take_operator("(")) {
    ExpressionPtr inner = parse_tuple(true, true);
    expect_operator(")");
    return inner;
  }
  if (peek().is_operator("[")) return parse_list();
  if (peek().is_operator("{")) return parse_dict();
  expect(TokenKind::kName, "an expression");
  return nullptr;
}

ExpressionPtr Parser::parse_list() {
  const Position at = take().at;
  std::vector<ExpressionPtr> items;
  while (!peek().is_operator("]")) {
    if (!items.empty()) expect_operator(",");
    if (peek().is_operator("]")) break;
    items.push_back(parse_expression());
  }
  expect_operator("]");
  return std::make_unique<SequenceLiteral>(at, Kind::kList, std::move(items));
}

ExpressionPtr Parser::parse_dict() {
  const Position at = take().at;
  DictLiteral::Pairs pairs;
  while (!peek().is_operator("}")) {
    if (!pairs.empty()) expect_operator(",");
    if (peek().is_operator("}")) break;
    ExpressionPtr key = parse_expression();
    expect_operator(":");
    pairs.emplace_back(std::move(key), parse_expression());
  }
  expect_operator("}");
  return std::make_unique<DictLiteral>(at, std::move(pairs));
}

ExpressionPtr Parser::parse_postfix(ExpressionPtr node) {
  while (true) {
    if (peek().is_operator(".") || peek().is_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (peek().is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::parse_subscript(ExpressionPtr node) {
  const Token begin = take();
  if (begin.text == ".") {
    const Token name = take();
    if (name.kind == TokenKind::kName) return std::make_unique<Attribute>(name.at, std::move(node), name.text);
    if (name.kind != TokenKind::kInteger) fail(name.at, "a name or a number is expected");
    auto index = std::make_unique<Constant>(name.at, Value::integer(name.integer));
    return std::make_unique<Item>(name.at, std::move(node), std::move(index));
  }
  std::vector<ExpressionPtr> bounds(3);
  size_t colons = 0;
  while (!peek().is_operator("]")) {
    if (take_operator(":")) {
      if (++colons > 2) fail(peek().at, "a slice has two colons at most");
      continue;
    }
    if (bounds[colons] != nullptr || peek().is_operator(",")) fail(peek().at, "expected ']'");
    bounds[colons] = parse_expression();
  }
  expect_operator("]");
  if (colons > 0) return std::make_unique<SliceOf>(begin.at, std::move(node), std::move(bounds));
  if (bounds[0] == nullptr) fail(begin.at, "an index is missing");
  return std::make_unique<Item>(begin.at, std::move(node), std::move(bounds[0]));
}

std::unique_ptr<const Call> Parser::parse_call(ExpressionPtr callee) {
  const Position at = peek().at;
  if (const auto* attribute = dynamic_cast<const Attribute*>(callee.get());
      attribute != nullptr && is_unsupported_method(attribute->name().name)) {
    fail(attribute->at(), fmt::format("the method '{}' is not supported", attribute->name().name));
  }
  return std::make_unique<const Call>(at, std::move(callee), parse_call_arguments());
}

CallArguments Parser::parse_call_arguments() {
  const Deeper deeper(*this);
  CallArguments out;
  const auto ensure = [&](bool fits) {
    if (!fits) fail(peek().at, "an argument stands where it may not");
  };
  expect_operator("(");
  for (bool first = true; !peek().is_operator(")"); first = false) {
    if (!first) expect_operator(",");
    if (peek().is_operator(")")) break;
    if (take_operator("*")) {
      ensure(out.more_positional == nullptr && out.more_named == nullptr);
      out.more_positional = parse_expression();
    } else if (take_operator("**")) {
      ensure(out.more_named == nullptr);
      out.more_named = parse_expression();
    } else if (peek().kind == TokenKind::kName && peek(1).is_operator("=")) {
      ensure(out.more_named == nullptr);
      const std::string name = take().text;
      take();
      for (const auto& [other, value] : out.named)
        ensure(other != name);
      out.named.emplace_back(name, parse_expression());
    } else {
      ensure(out.more_positional == nullptr && out.more_named == nullptr && out.named.empty());
      out.positional.push_back(parse_expression());
    }
  }
  expect_operator(")");
  return out;
}

}  // namespace krait::chat_template
