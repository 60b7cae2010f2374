#include "coordinator/tokenizer/metaspace.h"

#include "coordinator/tokenizer/utf8.h"

namespace krait::tokenizer {

Result<MetaspaceConfig> MetaspaceConfig::read(const Json& part, const Where& where) {
  MetaspaceConfig config;
  ASSIGN_OR_RETURN(config.replacement, string_field(part, "replacement", where));
  if (config.replacement.empty() || utf8_length(config.replacement[0]) != config.replacement.size()) {
    return corrupt(where.child("replacement"), "must be one character");
  }
  ASSIGN_OR_RETURN(const bool prefix_space, bool_field(part, "add_prefix_space", true, where));
  if (find_field(part, "prepend_scheme") == nullptr) {
    config.prepend = prefix_space ? Prepend::kAlways : Prepend::kNever;
    return config;
  }
  ASSIGN_OR_RETURN(const std::string scheme, string_field(part, "prepend_scheme", where));
  if (scheme == "always") {
    config.prepend = Prepend::kAlways;
  } else if (scheme == "first") {
    config.prepend = Prepend::kFirst;
  } else if (scheme == "never") {
    config.prepend = Prepend::kNever;
  } else {
    return unsupported(where.child("prepend_scheme"), "must be always, first or never");
  }
  return config;
}

}  // namespace krait::tokenizer
