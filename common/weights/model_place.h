// Where a model lies: a folder, a GGUF file, or a name as Hugging Face's tools keep it in their cache. No network.
#pragma once

#include <string>

#include "common/base/result.h"

namespace krait {

struct ModelPlace final {
  std::string path;
  std::string
      name;  // that it is served by unless told otherwise: "org/name", the folder's own, or the file's less .gguf
};

/// `model` is a folder, a file, or "org/name" of a model that was downloaded: then the snapshot that its refs/main
/// names, in $HF_HUB_CACHE, $HF_HOME/hub, or huggingface/hub below $XDG_CACHE_HOME or ~/.cache. Error: kNotFound, param
/// "model", naming where it was looked for.
Result<ModelPlace> find_model(const std::string& model);

}  // namespace krait
