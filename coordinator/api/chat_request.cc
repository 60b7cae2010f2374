#include "coordinator/api/chat_request.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "coordinator/api/json_body.h"
#include "coordinator/api/request_tables.h"
#include "coordinator/chat_template/json.h"

namespace krait::api {
namespace {

using chat_template::ChatTemplate;
using chat_template::Dict;
using chat_template::Kind;
using chat_template::Rendered;
using chat_template::Value;

/// What a template gets to see of a body.
constexpr auto kShownFields =
    std::to_array<std::string_view>({"messages", "tools", "documents", "chat_template_kwargs"});

/// Behind the last message's text when that is to be continued: where it comes out, the prompt ends. As transformers
/// has it, with a space that the template may trim.
constexpr std::string_view kContinueMark = "CONTINUE_FINAL_MESSAGE_TAG ";

Error wrong(std::string message, std::string param) {
  return Error{Errc::kInvalidArgument, std::move(message), std::move(param)};
}

/// A role's name is the template's word where it can be nothing else: templates write <|role|> around it, and that must
/// become a special token. What holds other characters stays a value.
Value role_value(const Value& role) {
  const std::string& name = role.bytes();
  const bool plain = !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  return Value::string(name, plain);
}

/// "content" as the template gets it: a text, none, or the texts of parts with line breaks between them.
Result<Value> content_value(const Value& content, const std::string& name) {
  if (content.is_string() || content.is(Kind::kNone)) return content;
  if (!content.is(Kind::kList)) return wrong(fmt::format("'{}' must be a text or an array of parts", name), name);
  std::string text;
  const auto& parts = content.items();
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part = fmt::format("{}[{}]", name, i);
    if (!parts[i].is(Kind::kDict)) return wrong(fmt::format("'{}' must be an object", part), part);
    const Value* type = parts[i].as_dict().find(std::string_view("type"));
    if (type == nullptr || !type->is_string() || type->bytes() != "text") {
      return wrong(fmt::format("'{}.type' must be \"text\": other parts are not supported", part), part + ".type");
    }
    const Value* words = parts[i].as_dict().find(std::string_view("text"));
    if (words == nullptr || !words->is_string()) {
      return wrong(fmt::format("'{}.text' must be a string", part), part + ".text");
    }
    if (i > 0) text += '\n';
    text += words->bytes();
  }
  return Value::string(std::move(text), false);
}

/// Arguments of a call come as JSON in a string; templates want the value. What is no JSON object stays a string.
Value with_parsed_arguments(const Value& call) {
  const Value* function = call.is(Kind::kDict) ? call.as_dict().find(std::string_view("function")) : nullptr;
  if (function == nullptr || !function->is(Kind::kDict)) return call;
  const Value* arguments = function->as_dict().find(std::string_view("arguments"));
  if (arguments == nullptr || !arguments->is_string()) return call;
  auto parsed = chat_template::parse_json(arguments->bytes());
  if (!parsed.ok() || !parsed->is(Kind::kDict)) return call;
  const auto changed = [](const Dict& dict, std::string_view key, const Value& value) {
    auto copy = std::make_shared<Dict>();
    for (const auto& [name, old] : dict.entries)
      copy->set(name, name.bytes() == key ? value : old);
    return Value::dict(std::move(copy));
  };
  return changed(call.as_dict(), "function", changed(function->as_dict(), "arguments", *parsed));
}

Result<Value> message_value(const Value& message, const std::string& name) {
  if (!message.is(Kind::kDict)) return wrong(fmt::format("'{}' must be an object", name), name);
  auto out = std::make_shared<Dict>();
  bool has_role = false;
  for (const auto& [key, value] : message.as_dict().entries) {
    const std::string& field = key.bytes();
    if (field == "role") {
      if (!value.is_string()) return wrong(fmt::format("'{}.role' must be a string", name), name + ".role");
      has_role = true;
      out->set(key, role_value(value));
    } else if (field == "content") {
      ASSIGN_OR_RETURN(Value content, content_value(value, name + ".content"));
      out->set(key, std::move(content));
    } else if (field == "tool_calls" && value.is(Kind::kList)) {
      std::vector<Value> calls;
      std::transform(value.items().begin(), value.items().end(), std::back_inserter(calls), with_parsed_arguments);
      out->set(key, Value::list(std::move(calls)));
    } else if (!value.is(Kind::kNone)) {
      // null is the default of every other field: templates ask whether it is there.
      out->set(key, value);
    }
  }
  if (!has_role) return wrong(fmt::format("'{}.role' is missing", name), name + ".role");
  return Value::dict(std::move(out));
}

/// Reads a chat, renders and tokenizes it.
class ChatReader final {
 public:
  ChatReader(const Fields& fields, const Value& body, const ModelInfo& model)
      : fields_(fields), body_(body.as_dict()), model_(model) {}

  Result<std::vector<int32_t>> read() {
    ASSIGN_OR_RETURN(Rendered chat, render());
    ASSIGN_OR_RETURN(auto tokens, encode_text(model_, chat.text, {false, true, chat.untrusted}, "messages"));
    if (tokens.empty()) {
      return Error{Errc::kInvalidArgument, "the chat template makes no text of these messages", "messages"};
    }
    RETURN_IF_ERROR(check_prompt(tokens.size(), "messages"));
    return tokens;
  }

 private:
  Result<Rendered> render() {
    continue_final_ = fields_.boolean("continue_final_message").value();
    const bool add_prompt = fields_.boolean("add_generation_prompt").value_or(!continue_final_);
    if (continue_final_ && add_prompt) {
      return wrong("'continue_final_message' and 'add_generation_prompt' exclude each other", "continue_final_message");
    }
    ChatTemplate::Variables variables = model_.chat->special_tokens;
    RETURN_IF_ERROR(add_messages(variables));
    const bool with_tools = add_list(variables, "tools");
    add_list(variables, "documents");
    variables.emplace_back("add_generation_prompt", Value::boolean(add_prompt));
    if (const Value* more = body_.find(std::string_view("chat_template_kwargs"));
        more != nullptr && more->is(Kind::kDict)) {
      for (const auto& entry : more->as_dict().entries) {
        const std::string name = entry.first.bytes();
        const bool taken = std::any_of(variables.begin(), variables.end(),
                                       [&](const auto& variable) { return variable.first == name; });
        if (taken) {
          const std::string param = shortened("chat_template_kwargs." + name);
          return wrong(fmt::format("'{}' is a name that the request itself has", param), param);
        }
        variables.emplace_back(name, entry.second);
      }
    }
    const ChatTemplate& chosen = model_.chat->choose(with_tools);
    for (const char* field : {"tools", "documents"}) {
      if (variables_has_items(variables, field) && !chosen.mentions(field)) {
        return wrong(fmt::format("'{}' is not supported: the model's chat template does not use it", field), field);
      }
    }
    auto rendered = chosen.render(variables, unix_seconds());
    if (!rendered.ok()) return Error{rendered.error().code, rendered.error().message, "messages"};
    if (continue_final_) RETURN_IF_ERROR(cut_at_mark(*rendered));
    return rendered;
  }

  static bool variables_has_items(const ChatTemplate::Variables& variables, std::string_view name) {
    return std::any_of(variables.begin(), variables.end(),
                       [&](const auto& variable) { return variable.first == name && truth(variable.second); });
  }

  Status add_messages(ChatTemplate::Variables& variables) {
    std::vector<Value> out;
    for (const Value& message : body_.find(std::string_view("messages"))->items()) {
      ASSIGN_OR_RETURN(Value value, message_value(message, fmt::format("messages[{}]", out.size())));
      out.push_back(std::move(value));
    }
    if (continue_final_) RETURN_IF_ERROR(mark_last(out));
    variables.emplace_back("messages", Value::list(std::move(out)));
    return {};
  }

  static Status mark_last(std::vector<Value>& messages) {
    auto marked = std::make_shared<Dict>();
    bool any = false;
    for (const auto& [key, value] : messages.back().as_dict().entries) {
      const bool is_content = key.bytes() == "content" && value.is_string();
      any |= is_content;
      marked->set(key, is_content ? Value::string(value.bytes() + std::string(kContinueMark), false) : value);
    }
    if (!any) return wrong("'continue_final_message' needs a last message with a text", "continue_final_message");
    messages.back() = Value::dict(std::move(marked));
    return {};
  }

  static Status cut_at_mark(Rendered& chat) {
    const std::string_view bare = kContinueMark.substr(0, kContinueMark.size() - 1);
    const size_t at = chat.text.rfind(bare);
    if (at == std::string::npos) {
      return wrong("the chat template drops the last message, which was to be continued", "continue_final_message");
    }
    const bool trimmed = chat.text.compare(at, kContinueMark.size(), kContinueMark) != 0;
    chat.text.resize(at);
    // A template that trims the mark's space would have trimmed the message's.
    while (trimmed && !chat.text.empty() &&
           std::string_view(" \n\r\t\f\v").find(chat.text.back()) != std::string_view::npos)
      chat.text.pop_back();
    const size_t end = chat.text.size();
    std::erase_if(chat.untrusted, [&](const ByteRange& range) { return range.begin >= end; });
    if (!chat.untrusted.empty()) chat.untrusted.back().end = std::min(chat.untrusted.back().end, end);
    return {};
  }

  /// A list of the body under its own name; an empty one counts as none. Whether it has items.
  bool add_list(ChatTemplate::Variables& variables, const char* name) const {
    const Value* value = body_.find(std::string_view(name));
    const bool any = value != nullptr && truth(*value);
    variables.emplace_back(name, any ? *value : Value::none());
    return any;
  }

  const Fields& fields_;
  const Dict& body_;
  const ModelInfo& model_;
  bool continue_final_ = false;
};

Status check_chat(const ModelInfo& model) {
  if (model.tokenizer == nullptr) return wrong("this model has no tokenizer: there is no chat", "messages");
  if (model.chat != nullptr) return {};
  return wrong("this model has no chat template; the server's option --chat-template FILE gives it one", "messages");
}

Status read_amounts(const Fields& fields, CompletionRequest& request) {
  const auto newer = fields.integer("max_completion_tokens");
  request.shared.max_tokens = static_cast<uint32_t>(newer.value_or(fields.integer("max_tokens").value()));
  const int64_t alternatives = fields.integer("top_logprobs").value();
  if (fields.boolean("logprobs").value()) {
    request.logprobs = static_cast<int32_t>(alternatives);
    request.shared.sampling.logprobs = *request.logprobs;
  } else if (alternatives > 0) {
    return wrong("'top_logprobs' needs 'logprobs': true", "top_logprobs");
  }
  return {};
}

}  // namespace

Result<CompletionRequest> read_chat_request(std::string_view body, const ModelInfo& model) {
  ASSIGN_OR_RETURN(auto parsed, parse_body(body));
  ASSIGN_OR_RETURN(const auto fields, Fields::check(std::move(parsed), kChatFields));
  CompletionRequest request;
  request.chat = true;
  RETURN_IF_ERROR(read_generation(fields, model, request));
  RETURN_IF_ERROR(read_amounts(fields, request));
  RETURN_IF_ERROR(check_chat(model));
  // Once more, as values with their keys in the client's order: templates show it.
  ASSIGN_OR_RETURN(const Value values, chat_template::parse_json(body, kShownFields));
  ASSIGN_OR_RETURN(request.prompts.emplace_back().tokens, ChatReader(fields, values, model).read());
  RETURN_IF_ERROR(check_together(model, request));
  return request;
}

}  // namespace krait::api
