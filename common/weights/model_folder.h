// Where a model lies: a folder, or a name as Hugging Face's tools keep it in their cache. No network.
#pragma once

#include <string>

#include "common/base/result.h"

namespace krait {

struct ModelFolder final {
  std::string path;
  std::string name;  // that it is served by unless told otherwise: "org/name", or the folder's own
};

/// `model` is a folder, or "org/name" of a model that was downloaded: then the snapshot that its refs/main names, in
/// $HF_HUB_CACHE, $HF_HOME/hub, or huggingface/hub below $XDG_CACHE_HOME or ~/.cache. Error: kNotFound, param "model",
/// naming where it was looked for.
Result<ModelFolder> find_model_folder(const std::string& model);

}  // namespace krait
