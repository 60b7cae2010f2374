#include "common/weights/gguf.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/model/gguf_names.h"

namespace krait {
namespace {

using nlohmann::json;

constexpr std::string_view kArchitectureKey = "general.architecture";
constexpr int64_t kNoToken = 0xffffffff;  // written where a model has no such token

/// A value as a config may have it. Lists stay out of it: none is read, and whoever expects a number says what is
/// there.
json config_value(const GgufValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* wide = std::get_if<uint64_t>(&value)) return *wide;
  if (const auto* fraction = std::get_if<double>(&value)) return *fraction;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* text = std::get_if<std::string>(&value)) return text->substr(0, 64);
  return json::array();
}

/// Ids of the tokens that these keys name; another type of value is shown to whoever reads the config.
json token_ids(const GgufMetadata& metadata, std::initializer_list<std::string_view> keys) {
  json ids = json::array();
  for (const std::string_view key : keys) {
    const auto at = metadata.find(key);
    if (at == metadata.end()) continue;
    const auto* id = std::get_if<int64_t>(&at->second);
    if (id == nullptr || (*id != kNoToken && *id != -1)) ids.push_back(config_value(at->second));
  }
  return ids;
}

}  // namespace

GgufFile::GgufFile(InputFile file, GgufHeader header) : file_(std::move(file)), metadata_(std::move(header.metadata)) {
  for (GgufTensor& tensor : header.tensors)
    tensors_.emplace(std::move(tensor.name), std::move(tensor.stored));
}

Result<std::shared_ptr<const GgufFile>> GgufFile::open(const std::string& path) {
  ASSIGN_OR_RETURN(InputFile input, InputFile::open(path));
  ASSIGN_OR_RETURN(GgufHeader header, read_gguf_header(input));
  std::shared_ptr<const GgufFile> file(new GgufFile(std::move(input), std::move(header)));
  ASSIGN_OR_RETURN(const auto parts, file->integer("split.count"));
  if (parts.value_or(1) > 1) {
    return Error{Errc::kUnsupported,
                 fmt::format("{}: is one of {} parts of a model, which are not read: merge them first", path, *parts),
                 "split.count"};
  }
  return file;
}

Status GgufFile::read(const StoredTensor& tensor, int64_t first, std::span<std::byte> out) const {
  CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tensor.bytes());
  return file_.read(tensor.offset + first, out);
}

Error GgufFile::fault(std::string_view key, std::string_view what) const {
  return {Errc::kCorrupt, fmt::format("{}: key '{}' {}", name(), key, what), std::string(key)};
}

template <class T>
Result<std::optional<T>> GgufFile::scalar(std::string_view key, std::string_view kind) const {
  const auto at = metadata_.find(key);
  if (at == metadata_.end()) return std::optional<T>();
  const T* value = std::get_if<T>(&at->second);
  if (value == nullptr) return fault(key, fmt::format("is no {}", kind));
  return std::optional<T>(*value);
}

template <class T>
Result<std::vector<T>> GgufFile::list(std::string_view key,
                                      Result<std::vector<T>> (*read)(const InputFile&, std::string_view,
                                                                     const GgufArray&)) const {
  const auto at = metadata_.find(key);
  if (at == metadata_.end()) return std::vector<T>();
  const auto* array = std::get_if<GgufArray>(&at->second);
  if (array == nullptr) return fault(key, "is no list");
  if (array->count > limits::kMaxVocab) {
    return fault(key, fmt::format("has {} elements, more than {}", array->count, limits::kMaxVocab));
  }
  return read(file_, key, *array);
}

Result<std::optional<std::string>> GgufFile::text(std::string_view key) const {
  return scalar<std::string>(key, "text");
}
Result<std::optional<int64_t>> GgufFile::integer(std::string_view key) const {
  return scalar<int64_t>(key, "integer of 63 bits");
}
Result<std::optional<bool>> GgufFile::boolean(std::string_view key) const {
  return scalar<bool>(key, "truth value");
}
Result<std::vector<std::string>> GgufFile::texts(std::string_view key) const {
  return list(key, read_gguf_texts);
}
Result<std::vector<int64_t>> GgufFile::integers(std::string_view key) const {
  return list(key, read_gguf_integers);
}
Result<std::vector<double>> GgufFile::numbers(std::string_view key) const {
  return list(key, read_gguf_numbers);
}

std::string gguf_config_json(const GgufFile& file) {
  const GgufMetadata& metadata = file.metadata();
  json config{{"model_type", kGgufType}};
  const auto architecture = metadata.find(kArchitectureKey);
  if (architecture != metadata.end()) {
    config[std::string(kArchitectureKey)] = config_value(architecture->second);
    const auto* name = std::get_if<std::string>(&architecture->second);
    const std::string prefix = name == nullptr ? std::string() : *name + ".";
    for (auto at = metadata.lower_bound(prefix); !prefix.empty() && at != metadata.end(); ++at) {
      if (!at->first.starts_with(prefix)) break;
      config[at->first] = config_value(at->second);
    }
  }
  // What only the tensors tell.
  if (const StoredTensor* table = file.find(kGgufEmbedding); table != nullptr && !table->shape.empty()) {
    config[std::string(kGgufVocabField)] = table->shape.size() == 1 ? 1 : table->shape.front();
  }
  config[std::string(kGgufHeadField)] = file.find(kGgufHead) != nullptr;
  config["eos_token_id"] = token_ids(
      metadata, {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"});
  config["bos_token_id"] = token_ids(metadata, {"tokenizer.ggml.bos_token_id"});
  return config.dump(-1, ' ', true, json::error_handler_t::replace);
}

}  // namespace krait
