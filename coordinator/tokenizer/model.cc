#include "coordinator/tokenizer/model.h"

#include <array>

#include "coordinator/tokenizer/bpe.h"

namespace krait::tokenizer {

Result<std::unique_ptr<Model>> make_model(const Json& json, const Where& where) {
  static constexpr std::array<PartMaker<Model>, 1> kModels{{
      {"BPE", make_bpe},
  }};
  // Files from before the field existed held BPE if they had merges.
  if (json.is_object() && find_field(json, "type") == nullptr && find_field(json, "merges") != nullptr) {
    return make_bpe(json, where);
  }
  return make_part<Model>(kModels, json, where);
}

}  // namespace krait::tokenizer
