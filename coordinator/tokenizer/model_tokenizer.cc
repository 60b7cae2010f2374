#include "coordinator/tokenizer/model_tokenizer.h"

#include "common/base/file.h"
#include "coordinator/tokenizer/gguf_tokenizer.h"

namespace krait::tokenizer {

Result<std::shared_ptr<const Tokenizer>> load_model_tokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.gguf() != nullptr) return load_gguf_tokenizer(*checkpoint.gguf());
  const std::string file = checkpoint.directory() + "/tokenizer.json";
  if (!entry_exists(file)) return std::shared_ptr<const Tokenizer>();
  return Tokenizer::load(file);
}

}  // namespace krait::tokenizer
