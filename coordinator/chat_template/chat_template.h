// A chat template: what a model's author wrote to turn a conversation into the text that the model continues.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/byte_range.h"
#include "common/base/result.h"
#include "coordinator/chat_template/value.h"

namespace krait::chat_template {

struct Rendered final {
  std::string text;
  /// Bytes that came from values and not from the template, ascending: special tokens there are text.
  std::vector<ByteRange> untrusted;
};

/// A loaded template. Immutable; may be rendered by any number of threads at once.
class ChatTemplate final {
 public:
  using Variables = std::vector<std::pair<std::string, Value>>;

  /// `name` stands before line and column in errors: a file, mostly. kInvalidArgument for what jinja2 refuses and for
  /// what is not supported here; kTooLarge beyond limits::kMaxTemplateSourceBytes.
  static Result<std::shared_ptr<const ChatTemplate>> parse(std::string_view source, const std::string& name);

  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  /// The text for these variables. `now_s`: seconds since 1970, for strftime_now. Errors: kInvalidArgument, in the
  /// template's own words where it raised it, and for what needs more than limits::kMaxTemplate... allow.
  Result<Rendered> render(const Variables& variables, int64_t now_s) const;

  /// Whether the template mentions the name anywhere.
  bool mentions(std::string_view name) const;

 private:
  struct Parts;

  explicit ChatTemplate(std::unique_ptr<const Parts> parts);

  std::unique_ptr<const Parts> parts_;
};

}  // namespace krait::chat_template
