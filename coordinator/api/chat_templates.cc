#include "coordinator/api/chat_templates.h"

#include <array>
#include <exception>
#include <optional>

#include "common/base/file.h"
#include "common/base/json_text.h"
#include "common/base/limits.h"

namespace krait::api {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

Status add(ChatTemplates& templates, const std::string& name, std::string_view source, const std::string& where) {
  ASSIGN_OR_RETURN(auto loaded, chat_template::ChatTemplate::parse(source, where));
  templates.by_name[name] = std::move(loaded);
  return {};
}

Status add_file(ChatTemplates& templates, const std::string& name, const fs::path& path) {
  ASSIGN_OR_RETURN(const std::string source, read_text_file(path.native(), limits::kMaxTemplateSourceBytes));
  return add(templates, name, source, path.string());
}

/// Named templates in files of their own: NAME.jinja.
Status add_folder(ChatTemplates& templates, const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".jinja") {
      RETURN_IF_ERROR(add_file(templates, entry.path().stem().string(), entry.path()));
    }
  }
  if (error) return Error{Errc::kIo, fmt::format("{} cannot be read: {}", folder.string(), error.message()), ""};
  return {};
}

Error corrupt(const fs::path& path, std::string_view field, std::string_view what) {
  return Error{Errc::kCorrupt, fmt::format("{}: {} {}", path.string(), field, what), path.string()};
}

/// "chat_template" of tokenizer_config.json: one template, or a list of them with names.
Status add_from_config(ChatTemplates& templates, const json& config, const fs::path& path) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  const std::string where = path.string() + ": chat_template";
  if (found->is_string()) return add(templates, "default", found->get_ref<const std::string&>(), where);
  if (!found->is_array()) return corrupt(path, "chat_template", "must be a text or a list");
  for (const json& item : *found) {
    const bool fits = item.is_object() && item.contains("name") && item["name"].is_string() &&
                      item.contains("template") && item["template"].is_string();
    if (!fits) return corrupt(path, "chat_template", "must hold objects with name and template");
    const auto name = item["name"].get<std::string>();
    if (templates.by_name.contains(name)) {
      return corrupt(path, "chat_template", fmt::format("has two templates with the name '{}'", name));
    }
    RETURN_IF_ERROR(
        add(templates, name, item["template"].get_ref<const std::string&>(), fmt::format("{} '{}'", where, name)));
  }
  return {};
}

/// A token as a text, or as the object that it is saved as.
std::optional<std::string> token_text(const json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (!token.is_object()) return std::nullopt;
  const auto content = token.find("content");
  return content != token.end() && content->is_string() ? std::optional(content->get<std::string>()) : std::nullopt;
}

Status add_special_tokens(ChatTemplates& templates, const json& config, const fs::path& path) {
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    const auto found = config.find(name);
    if (found == config.end() || found->is_null()) continue;
    const auto text = token_text(*found);
    if (!text) return corrupt(path, name, "must be a text, or an object whose content is one");
    templates.special_tokens.emplace_back(name, chat_template::Value::string(*text, true));
  }
  return {};
}

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

Status add_from_gguf(ChatTemplates& templates, const GgufFile& model) {
  ASSIGN_OR_RETURN(const auto names, model.texts("tokenizer.chat_templates"));
  if (names.size() > static_cast<size_t>(limits::kMaxNamedTemplates)) {
    return model.fault("tokenizer.chat_templates", fmt::format("has {} names", names.size()));
  }
  const auto add_key = [&](const std::string& name, const std::string& key) -> Status {
    ASSIGN_OR_RETURN(const auto source, model.text(key));
    if (!source) return {};
    if (source->size() > static_cast<size_t>(limits::kMaxTemplateSourceBytes)) {
      return model.fault(key, fmt::format("has {} bytes", source->size()));
    }
    return add(templates, name, *source, fmt::format("{}: {}", model.name(), key));
  };
  RETURN_IF_ERROR(add_key("default", std::string(kTemplateKey)));
  for (const std::string& name : names)
    RETURN_IF_ERROR(add_key(name, fmt::format("{}.{}", kTemplateKey, name)));
  return {};
}

Status add_special_tokens(ChatTemplates& templates, const GgufFile& model) {
  struct Special final {
    const char* name;
    const char* key;
  };
  static constexpr auto kSpecials = std::to_array<Special>({{"bos_token", "tokenizer.ggml.bos_token_id"},
                                                            {"eos_token", "tokenizer.ggml.eos_token_id"},
                                                            {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                                            {"sep_token", "tokenizer.ggml.seperator_token_id"},
                                                            {"pad_token", "tokenizer.ggml.padding_token_id"},
                                                            {"mask_token", "tokenizer.ggml.mask_token_id"}});
  ASSIGN_OR_RETURN(const auto tokens, model.texts("tokenizer.ggml.tokens"));
  for (const Special& special : kSpecials) {
    ASSIGN_OR_RETURN(const auto id, model.integer(special.key));
    if (!id || *id < 0 || *id >= std::ssize(tokens)) continue;
    templates.special_tokens.emplace_back(special.name,
                                          chat_template::Value::string(tokens[static_cast<size_t>(*id)], true));
  }
  return {};
}

}  // namespace

const chat_template::ChatTemplate& ChatTemplates::choose(bool with_tools) const {
  if (const auto tools = by_name.find("tool_use"); with_tools && tools != by_name.end()) return *tools->second;
  const auto found = by_name.find("default");
  return found != by_name.end() ? *found->second : *by_name.begin()->second;
}

Result<std::shared_ptr<const ChatTemplates>> load_chat_templates(const fs::path& model_dir, const fs::path& file) try {
  auto templates = std::make_shared<ChatTemplates>();
  const fs::path config_path = model_dir / "tokenizer_config.json";
  json config = json::object();
  if (entry_exists(config_path.native())) {
    ASSIGN_OR_RETURN(const std::string text, read_text_file(config_path.native(), limits::kMaxConfigBytes));
    ASSIGN_OR_RETURN(config, parse_json_object(text, config_path.native(), limits::kMaxConfigBytes));
  }
  if (!file.empty()) {
    RETURN_IF_ERROR(add_file(*templates, "default", file));
  } else {
    // A file of its own counts before the entry in the config.
    RETURN_IF_ERROR(add_from_config(*templates, config, config_path));
    for (const char* folder : {"additional_chat_templates", "chat_templates"}) {
      if (entry_exists((model_dir / folder).native())) RETURN_IF_ERROR(add_folder(*templates, model_dir / folder));
    }
    const fs::path own = model_dir / "chat_template.jinja";
    if (entry_exists(own.native())) RETURN_IF_ERROR(add_file(*templates, "default", own));
  }
  if (templates->by_name.empty()) return std::shared_ptr<const ChatTemplates>();
  RETURN_IF_ERROR(add_special_tokens(*templates, config, config_path));
  return std::shared_ptr<const ChatTemplates>(std::move(templates));
} catch (const std::exception& problem) {
  return Error{Errc::kIo, fmt::format("the chat templates cannot be read: {}", problem.what()), ""};
}

Result<std::shared_ptr<const ChatTemplates>> load_chat_templates(const GgufFile& model, const fs::path& file) {
  auto templates = std::make_shared<ChatTemplates>();
  RETURN_IF_ERROR(file.empty() ? add_from_gguf(*templates, model) : add_file(*templates, "default", file));
  if (templates->by_name.empty()) return std::shared_ptr<const ChatTemplates>();
  RETURN_IF_ERROR(add_special_tokens(*templates, model));
  return std::shared_ptr<const ChatTemplates>(std::move(templates));
}

}  // namespace krait::api
