#include "coordinator/chat_template/chat_template.h"

#include <exception>

#include "common/base/limits.h"
#include "coordinator/chat_template/parser.h"
#include "coordinator/chat_template/unicode.h"

namespace krait::chat_template {

struct ChatTemplate::Parts final {
  NameTable names;
  Body body;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string_view source, const std::string& name) try {
  if (std::cmp_greater(source.size(), limits::kMaxTemplateSourceBytes)) {
    return Error{Errc::kTooLarge, fmt::format("{} is larger than {} bytes", name, limits::kMaxTemplateSourceBytes),
                 name};
  }
  if (!is_valid_utf8(source)) return Error{Errc::kInvalidArgument, fmt::format("{} is not UTF-8", name), name};
  auto parts = std::make_unique<Parts>();
  parts->body = Parser(tokenize(source), parts->names).parse();
  return std::shared_ptr<const ChatTemplate>(new ChatTemplate(std::move(parts)));
} catch (const SyntaxError& error) {
  return Error{Errc::kInvalidArgument, fmt::format("{}:{}:{}: {}", name, error.at.line, error.at.column, error.message),
               name};
} catch (const std::exception& problem) {
  return Error{Errc::kResourceExhausted, fmt::format("{} cannot be loaded: {}", name, problem.what()), name};
}

Result<Rendered> ChatTemplate::render(const Variables& variables, int64_t now_s) const try {
  Run run(now_s);
  for (const auto& [name, value] : variables) {
    if (const auto id = parts_->names.find(name)) run.scope().set(*id, value);
  }
  hide(run.scope(), *parts_->body.hidden);
  try {
    Capture capture(run);
    run_block(run, parts_->body.block);
    const auto text = capture.take();
    return Rendered{std::move(text->bytes), std::move(text->untrusted)};
  } catch (const RenderError& error) {
    const Position at = run.position();
    return Error{Errc::kInvalidArgument,
                 fmt::format("the chat template {}: {} (line {}, column {})", error.raised ? "refuses" : "fails",
                             error.message, at.line, at.column),
                 ""};
  }
} catch (const std::exception& problem) {
  return Error{Errc::kResourceExhausted, fmt::format("the chat cannot be rendered: {}", problem.what()), ""};
}

bool ChatTemplate::mentions(std::string_view name) const {
  return parts_->names.find(name).has_value();
}

}  // namespace krait::chat_template
