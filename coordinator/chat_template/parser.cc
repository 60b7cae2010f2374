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

Parser::InFrame::InFrame(Parser& parser, Frame& frame)
    : parser_(parser), frame_before_(parser.frame_), mentions_before_(parser.mentions_) {
  parser.frame_ = &frame;
  parser.mentions_ = &frame.mentions;
}

Parser::InFrame::~InFrame() {
  parser_.frame_ = frame_before_;
  parser_.mentions_ = mentions_before_;
}

Body Parser::parse() {
  Body body{parse_block_until({}), true, whole_.hidden};
  if (!markup_.empty()) {
    fail(markup_[0]->at(),
         fmt::format("the filter '{}' is only supported as the last one of what is printed", markup_[0]->name()));
  }
  find_hidden(whole_);
  return body;
}

/// What is printed may be markup, also as a part of a ~ b and of a conditional.
void Parser::settle_markup(const Expression& printed) {
  std::erase_if(markup_, [&](const Markup* markup) { return markup == &printed; });
  const auto* conditional = dynamic_cast<const Conditional*>(&printed);
  if (conditional == nullptr) return;
  settle_markup(conditional->yes());
  if (conditional->no() != nullptr) settle_markup(*conditional->no());
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
  Body body{parse_body({end}), false, frame_->hidden};
  expect_name(end);
  body.keeps = macros_ != before;
  return body;
}

StatementPtr Parser::parse_output() {
  ExpressionPtr value = parse_tuple(true, false);
  settle_markup(*value);
  return std::make_unique<Print>(std::move(value));
}

/// {% print a, b %}: each for itself.
StatementPtr Parser::parse_print() {
  expect_name("print");
  Block all;
  while (peek().kind != TokenKind::kBlockEnd) {
    if (!all.empty()) expect_operator(",");
    ExpressionPtr value = parse_expression();
    settle_markup(*value);
    all.push_back(std::make_unique<Print>(std::move(value)));
  }
  return std::make_unique<Sequence>(std::move(all));
}

StatementPtr Parser::parse_statement() {
  const Token& word = peek();
  if (word.kind != TokenKind::kName) fail(word.at, fmt::format("expected a statement, got {}", described(word)));
  using Rule = StatementPtr (Parser::*)();
  static constexpr std::pair<std::string_view, Rule> kRules[] = {
      {"if", &Parser::parse_if},
      {"for", &Parser::parse_for},
      {"set", &Parser::parse_set},
      {"print", &Parser::parse_print},
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
  Mention mentions{Mention::Kind::kBranches, 0, std::vector<std::vector<Mention>>(3)};
  ExpressionPtr test = parse_tuple(false, false);
  Block block = parse_branch({"elif", "else", "endif"}, mentions.branches[0]);
  branches.emplace_back(std::move(test), std::move(block));
  auto* const before = std::exchange(mentions_, &mentions.branches[1]);
  while (take_name("elif")) {
    // To jinja2 each is an `if` without more, the first within the one around.
    Mention inner{Mention::Kind::kBranches, 0, std::vector<std::vector<Mention>>(3)};
    test = parse_tuple(false, false);
    block = parse_branch({"elif", "else", "endif"}, inner.branches[0]);
    branches.emplace_back(std::move(test), std::move(block));
    mentions_->push_back(std::move(inner));
  }
  mentions_ = before;
  if (take_name("else")) otherwise = parse_branch({"endif"}, mentions.branches[2]);
  expect_name("endif");
  mentions_->push_back(std::move(mentions));
  return std::make_unique<If>(std::move(branches), std::move(otherwise));
}

Block Parser::parse_branch(Words ends, std::vector<Mention>& mentions) {
  auto* const before = std::exchange(mentions_, &mentions);
  Block block = parse_body(ends);
  mentions_ = before;
  return block;
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
  if (take_name("if")) {
    const InFrame frame(*this);
    mention(Mention::Kind::kGiven, parts.target);
    parts.test = parse_expression();
  }
  parts.recursive = take_name("recursive");
  {
    const InFrame frame(*this);
    mention(Mention::Kind::kGiven, parts.target);
    mention(Mention::Kind::kGiven, parts.loop_name);
    parts.body = {parse_body({"else", "endfor"}), false, frame_->hidden};
  }
  --loops_;
  {
    const InFrame frame(*this);
    parts.otherwise = {{}, false, frame_->hidden};
    // A recursive loop is a function: no break reaches out of it.
    const int loops = std::exchange(loops_, parts.recursive ? 0 : loops_);
    if (take_name("else")) parts.otherwise.block = parse_body({"endfor"});
    loops_ = loops;
  }
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
  if (is_one_of(kConstants, name.text)) {
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

/// What is set, once the order of the source has come to it. An attribute's namespace is read.
void Parser::mention(Mention::Kind kind, const Target& target) {
  for (const Target& part : target.parts)
    mention(kind, part);
  if (!target.is_tuple) mention(target.attribute.empty() ? kind : Mention::Kind::kRead, target.name);
}

Target Parser::parse_target(bool with_attributes) {
  Target first = parse_target_part(with_attributes);
  if (!peek().is_operator(",")) return first;
  Target tuple{first.at, 0, "", {}, true};
  tuple.parts.push_back(std::move(first));
  while (take_operator(",")) {
    if (peek().is_name("in") || peek().is_operator(")") || peek().kind == TokenKind::kBlockEnd) break;
    tuple.parts.push_back(parse_target_part(with_attributes));
  }
  return tuple;
}

StatementPtr Parser::parse_set() {
  expect_name("set");
  Target target = parse_target(true);
  if (take_operator("=")) {
    ExpressionPtr value = parse_tuple(true, false);
    mention(Mention::Kind::kSet, target);
    return std::make_unique<Set>(std::move(target), std::move(value));
  }
  mention(Mention::Kind::kSet, target);
  Filters filters = parse_block_filters(false);
  const InFrame frame(*this);
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
  const InFrame frame(*this);
  for (const auto& [target, value] : values)
    mention(Mention::Kind::kSet, target);
  // Nor out of what the model says, which is a call block.
  const int loops = std::exchange(loops_, is_with ? loops_ : 0);
  Body body = parse_scope_until(is_with ? "endwith" : "endgeneration");
  loops_ = loops;
  return std::make_unique<With>(std::move(values), std::move(body));
}

StatementPtr Parser::parse_filter_block() {
  expect_name("filter");
  Filters filters = parse_block_filters(true);
  const InFrame frame(*this);
  return std::make_unique<FilterBlock>(std::move(filters), parse_scope_until("endfilter"));
}

}  // namespace krait::chat_template
