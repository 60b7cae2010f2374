// The parser's rules for filters and tests.
#include "coordinator/chat_template/filters.h"
#include "coordinator/chat_template/parser.h"

namespace krait::chat_template {
namespace {

std::optional<Markup::Escapes> markup_filter(std::string_view name) {
  if (name == "safe") return Markup::Escapes::kNothing;
  if (name == "e" || name == "escape") return Markup::Escapes::kUnlessMarkup;
  if (name == "forceescape") return Markup::Escapes::kAlways;
  return std::nullopt;
}

std::string missing_filter(const std::string& name) {
  return is_filter_name(name) ? fmt::format("the filter '{}' is not supported", name)
                              : fmt::format("there is no filter '{}'", name);
}

}  // namespace

ExpressionPtr Parser::parse_filters(ExpressionPtr node) {
  while (true) {
    if (peek().is_operator("|")) {
      take();
      node = parse_filter(std::move(node));
    } else if (peek().is_name("is")) {
      node = parse_test(std::move(node));
    } else if (peek().is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

std::string Parser::parse_dotted_name(std::string_view what) {
  std::string name = expect(TokenKind::kName, what).text;
  while (take_operator("."))
    name += "." + expect(TokenKind::kName, what).text;
  return name;
}

ExpressionPtr Parser::parse_filter(ExpressionPtr node) {
  const Position at = peek().at;
  const std::string name = parse_dotted_name("a filter");
  if (const auto markup = markup_filter(name)) return parse_markup(at, name, *markup, std::move(node));
  const Method method = find_filter(name);
  if (method == nullptr) fail(at, missing_filter(name));
  return std::make_unique<Applied>(at, std::move(node), method, parse_filter_arguments(at, name));
}

ExpressionPtr Parser::parse_markup(Position at, const std::string& name, Markup::Escapes escapes, ExpressionPtr node) {
  if (parse_filter_arguments(at, name).any()) fail(at, fmt::format("the filter '{}' takes no arguments", name));
  settle_markup(*node);
  auto markup = std::make_unique<Markup>(at, name, escapes, std::move(node));
  markup_.push_back(markup.get());
  return markup;
}

CallArguments Parser::parse_filter_arguments(Position at, const std::string& filter) {
  CallArguments arguments;
  if (peek().is_operator("(")) arguments = parse_call_arguments();
  if (filter != "map" || arguments.positional.empty()) return arguments;
  // The name of a filter, nearly always written out: then it is known now that it is not there.
  const auto* name = dynamic_cast<const Constant*>(arguments.positional[0].get());
  if (name == nullptr || !name->value().is_string()) return arguments;
  const std::string& mapped = name->value().bytes();
  if (is_filter_name(mapped) && find_filter(mapped) == nullptr) {
    fail(at, fmt::format("the filter '{}' is not supported in map", mapped));
  }
  return arguments;
}

std::unique_ptr<const Applied> Parser::parse_block_filter() {
  const Position at = peek().at;
  const std::string name = parse_dotted_name("a filter");
  const Method method = find_filter(name);
  if (markup_filter(name)) fail(at, fmt::format("the filter '{}' is not supported for blocks", name));
  if (method == nullptr) fail(at, missing_filter(name));
  return std::make_unique<const Applied>(at, nullptr, method, parse_filter_arguments(at, name));
}

Filters Parser::parse_block_filters(bool first_without_pipe) {
  Filters filters;
  if (first_without_pipe) filters.push_back(parse_block_filter());
  while (take_operator("|"))
    filters.push_back(parse_block_filter());
  return filters;
}

ExpressionPtr Parser::parse_test(ExpressionPtr node) {
  const Position at = take().at;
  const bool negated = take_name("not");
  const Position named_at = peek().at;
  const std::string name = parse_dotted_name("a test");
  const Method method = find_test(name);
  if (method == nullptr) fail(named_at, fmt::format("there is no test '{}'", name));
  CallArguments arguments;
  const Token& next = peek();
  const bool begins_argument = (next.kind == TokenKind::kName && !at_name_of({"else", "or", "and"})) ||
                               next.kind == TokenKind::kString || next.kind == TokenKind::kInteger ||
                               next.kind == TokenKind::kFloat || next.is_operator("[") || next.is_operator("{");
  if (next.is_operator("(")) {
    arguments = parse_call_arguments();
  } else if (begins_argument) {
    if (next.is_name("is")) fail(next.at, "tests cannot be chained");
    arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  ExpressionPtr test = std::make_unique<Applied>(named_at, std::move(node), method, std::move(arguments));
  if (!negated) return test;
  return std::make_unique<Not>(at, std::move(test));
}

}  // namespace krait::chat_template
