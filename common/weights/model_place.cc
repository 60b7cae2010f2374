#include "common/weights/model_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace krait {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The first of the places where the tools keep models that the environment names; they look in one only, as here.
fs::path hub_cache() {
  if (const auto cache = environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const auto home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  const auto cache = environment("XDG_CACHE_HOME");
  return (cache.empty() ? fs::path(environment("HOME")) / ".cache" : fs::path(cache)) / "huggingface" / "hub";
}

/// "org/name": two words of letters, digits and . _ -
bool is_hub_name(const std::string& model) {
  const auto slash = model.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == model.size() || model[0] == '.') return false;
  return std::count(model.begin(), model.end(), '/') == 1 && std::all_of(model.begin(), model.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-' || c == '/';
         });
}

std::string own_name(const std::string& model) {
  std::error_code error;  // without a working directory the name is taken from the path as given
  fs::path folder = fs::absolute(model, error);
  folder = (error ? fs::path(model) : folder).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return folder.extension() == ".gguf" ? folder.stem() : folder.filename();
}

}  // namespace

Result<ModelPlace> find_model(const std::string& model) {
  std::error_code error;
  if (fs::exists(model, error) || !is_hub_name(model)) return ModelPlace{model, own_name(model)};
  std::string key = "models--" + model;
  key.replace(key.find('/'), 1, "--");
  const fs::path kept = hub_cache() / key;
  std::ifstream ref(kept / "refs" / "main");
  std::string revision;
  ref >> revision;
  const fs::path snapshot = kept / "snapshots" / revision;
  const bool plain = !revision.empty() && revision.find('/') == std::string::npos && revision[0] != '.';
  if (!plain || !fs::is_directory(snapshot, error)) {
    return Error{
        Errc::kNotFound,
        fmt::format("model '{}' is no folder or file here, nor a downloaded model in {}", model, kept.string()),
        "model"};
  }
  return ModelPlace{snapshot.string(), model};
}

}  // namespace krait
