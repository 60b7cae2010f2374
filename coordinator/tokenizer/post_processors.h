// "post_processor": the special tokens that are put around a text.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "coordinator/tokenizer/json_part.h"

namespace krait::tokenizer {

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;

  virtual void apply(std::vector<int32_t>& ids) const = 0;
};

/// The post-processor that `json` describes, by the table in post_processors.cc.
Result<std::unique_ptr<PostProcessor>> make_post_processor(const Json& json, const Where& where);

}  // namespace krait::tokenizer
