// The chat templates of a model and the special tokens that they name.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/weights/gguf.h"
#include "coordinator/chat_template/chat_template.h"

namespace krait::api {

struct ChatTemplates final {
  /// By name: "default", and others such as "tool_use". Never empty.
  std::map<std::string, std::shared_ptr<const chat_template::ChatTemplate>, std::less<>> by_name;
  /// bos_token, eos_token and the like. The author's words: their texts are special tokens.
  chat_template::ChatTemplate::Variables special_tokens;

  /// The one for a conversation with or without tools.
  const chat_template::ChatTemplate& choose(bool with_tools) const;
};

/// Templates of a model's folder, as transformers looks for them: chat_template.jinja and the folders beside it for
/// named ones, else "chat_template" of tokenizer_config.json. `file` is taken in their place where it is not empty.
/// Null where there is none. Errors name file, line and column: kIo, kTooLarge, kCorrupt (tokenizer_config.json),
/// kInvalidArgument (a template).
Result<std::shared_ptr<const ChatTemplates>> load_chat_templates(const std::filesystem::path& model_dir,
                                                                 const std::filesystem::path& file);

/// The same of a GGUF file: tokenizer.chat_template, the named ones that tokenizer.chat_templates lists, and the
/// special tokens by their ids. Errors name the file and the key.
Result<std::shared_ptr<const ChatTemplates>> load_chat_templates(const GgufFile& model,
                                                                 const std::filesystem::path& file);

}  // namespace krait::api
