// Tokens to a tree that can be run, by the grammar of jinja2. Whatever is not known here is refused with its place.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/chat_template/lexer.h"
#include "coordinator/chat_template/statements.h"

namespace krait::chat_template {

/// Names and the numbers that stand for them.
class NameTable final {
 public:
  NameId id(std::string_view name);
  std::optional<NameId> find(std::string_view name) const;

 private:
  std::map<std::string, NameId, std::less<>> ids_;
};

class Parser final {
 public:
  Parser(std::vector<Token> tokens, NameTable& names) : tokens_(std::move(tokens)), names_(names) {}

  /// The whole template. Throws SyntaxError.
  Body parse();

 private:
  /// Counts one rule inside another.
  class Deeper final {
   public:
    explicit Deeper(Parser& parser);
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Parser& parser_;
  };
  /// Names that are mentioned meanwhile are those of a frame inside the present one.
  class InFrame final {
   public:
    explicit InFrame(Parser& parser) : InFrame(parser, parser.frame_->inside.emplace_back()) {}
    InFrame(Parser& parser, Frame& frame);
    ~InFrame();
    InFrame(const InFrame&) = delete;
    InFrame& operator=(const InFrame&) = delete;

   private:
    Parser& parser_;
    Frame* const frame_before_;
    std::vector<Mention>* const mentions_before_;
  };
  using Words = std::initializer_list<std::string_view>;

  // Tokens.
  const Token& peek(size_t ahead = 0) const;
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool take_operator(std::string_view op);
  bool take_name(std::string_view name);
  Token expect(TokenKind kind, std::string_view what);
  void expect_operator(std::string_view op);
  void expect_name(std::string_view name);
  bool at_name_of(Words names) const;

  // Statements, in parser.cc and macro_parser.cc.
  Block parse_block_until(Words ends);
  Block parse_body(Words ends);
  Block parse_branch(Words ends, std::vector<Mention>& mentions);
  Body parse_scope_until(std::string_view end);
  StatementPtr parse_output();
  StatementPtr parse_statement();
  StatementPtr parse_if();
  StatementPtr parse_for();
  StatementPtr parse_set();
  StatementPtr parse_with();
  StatementPtr parse_macro();
  StatementPtr parse_call_block();
  StatementPtr parse_filter_block();
  StatementPtr parse_loop_control();
  void parse_parameters(MacroParts& parts);
  void parse_macro_body(MacroParts& parts, std::string_view end);
  void mention(Mention::Kind kind, NameId name) { mentions_->push_back({kind, name, {}}); }
  void mention(Mention::Kind kind, const Target& target);
  Target parse_target(bool with_attributes);
  Target parse_target_part(bool with_attributes);
  StatementPtr parse_print();
  void settle_markup(const Expression& printed);

  // Expressions, in expression_parser.cc and filter_parser.cc.
  ExpressionPtr parse_expression(bool with_condition = true);
  ExpressionPtr parse_tuple(bool with_condition, bool in_parentheses);
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_joined();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_named();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr node);
  ExpressionPtr parse_filters(ExpressionPtr node);
  ExpressionPtr parse_filter(ExpressionPtr node);
  ExpressionPtr parse_markup(Position at, const std::string& name, Markup::Escapes escapes, ExpressionPtr node);
  CallArguments parse_filter_arguments(Position at, const std::string& filter);
  ExpressionPtr parse_test(ExpressionPtr node);
  ExpressionPtr parse_subscript(ExpressionPtr node);
  std::unique_ptr<const Call> parse_call(ExpressionPtr callee);
  CallArguments parse_call_arguments();
  Filters parse_block_filters(bool first_without_pipe);
  std::unique_ptr<const Applied> parse_block_filter();
  std::optional<Comparison> take_comparison();
  bool at_tuple_end() const;
  std::string parse_dotted_name(std::string_view what);

  const std::vector<Token> tokens_;
  NameTable& names_;
  size_t at_ = 0;
  Frame whole_;
  Frame* frame_ = &whole_;
  std::vector<Mention>* mentions_ = &whole_.mentions;  // of the frame, or of a branch in it
  int depth_ = 0;
  int loops_ = 0;                      // for statements around
  int macros_ = 0;                     // so far: a body in which the number grows is one that a macro may outlive
  int special_names_[3] = {};          // uses of caller, varargs, kwargs so far
  std::vector<const Markup*> markup_;  // of which it is not known that it is only printed
};

}  // namespace krait::chat_template
