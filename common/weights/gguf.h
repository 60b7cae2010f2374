// One GGUF file: what llama.cpp keeps a model in, with its config and its tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/file.h"
#include "common/base/result.h"
#include "common/tensor/stored_tensor.h"
#include "common/weights/gguf_header.h"
#include "common/weights/tensor_source.h"

namespace krait {

class GgufFile final : public TensorSource {
 public:
  /// Reads and checks what stands before the tensors: read_gguf_header. A part of a model in several files is refused
  /// (kUnsupported).
  static Result<std::shared_ptr<const GgufFile>> open(const std::string& path);

  const std::string& name() const override { return file_.path(); }
  const std::map<std::string, StoredTensor, std::less<>>& tensors() const override { return tensors_; }
  Status read(const StoredTensor& tensor, int64_t first, std::span<std::byte> out) const override;
  Status check_unchanged() const override { return file_.check_unchanged(); }

  const GgufMetadata& metadata() const { return metadata_; }

  /// The value of a key; nothing, or an empty list, where it is absent. Errors name the file, param the key: kCorrupt
  /// for a value of another type, and for lists also what InputFile::read says, since they are read when they are asked
  /// for.
  Result<std::optional<std::string>> text(std::string_view key) const;
  Result<std::optional<int64_t>> integer(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::vector<std::string>> texts(std::string_view key) const;
  Result<std::vector<int64_t>> integers(std::string_view key) const;
  Result<std::vector<double>> numbers(std::string_view key) const;

  /// kCorrupt, naming file and key.
  Error fault(std::string_view key, std::string_view what) const;

 private:
  GgufFile(InputFile file, GgufHeader header);

  template <class T>
  Result<std::optional<T>> scalar(std::string_view key, std::string_view kind) const;
  template <class T>
  Result<std::vector<T>> list(std::string_view key, Result<std::vector<T>> (*read)(const InputFile&, std::string_view,
                                                                                   const GgufArray&)) const;

  InputFile file_;
  GgufMetadata metadata_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

/// The config of the model in it, as common/model reads it: parse_model_config with the model_type "gguf".
std::string gguf_config_json(const GgufFile& file);

}  // namespace krait
