// One safetensors file. Nothing is believed: a file that opens has every tensor inside its data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "common/base/file.h"
#include "common/base/result.h"
#include "common/tensor/stored_tensor.h"
#include "common/weights/tensor_source.h"

namespace krait {

class SafetensorsFile final : public TensorSource {
 public:
  /// Reads and checks the header. Refused: header longer than the file or the limit, JSON that is not the format's,
  /// duplicate names, unknown dtypes, shapes whose size overflows or differs from their bytes, offsets outside the
  /// data, overlaps, gaps, bytes after the last tensor. Errors (kIo, kCorrupt, kUnsupported) name file and tensor;
  /// `param` is the tensor, or the path where the whole file is at fault.
  static Result<std::shared_ptr<const SafetensorsFile>> open(const std::string& path);

  const std::string& name() const override { return file_.path(); }
  const std::map<std::string, StoredTensor, std::less<>>& tensors() const override { return tensors_; }
  Status read(const StoredTensor& tensor, int64_t first, std::span<std::byte> out) const override;
  Status check_unchanged() const override { return file_.check_unchanged(); }

 private:
  explicit SafetensorsFile(InputFile file) : file_(std::move(file)) {}

  InputFile file_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

}  // namespace krait
