// One safetensors file. Nothing is believed: a file that opens has every tensor inside its data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/base/file.h"
#include "common/base/result.h"
#include "common/tensor/stored_tensor.h"

namespace krait {

/// Threads may read it at the same time.
class SafetensorsFile final {
 public:
  /// Reads and checks the header. Refused: header longer than the file or the limit, JSON that is not the format's,
  /// duplicate names, unknown dtypes, shapes whose size overflows or differs from their bytes, offsets outside the
  /// data, overlaps, gaps, bytes after the last tensor. Errors (kIo, kCorrupt, kUnsupported) name file and tensor;
  /// `param` is the tensor, or the path where the whole file is at fault.
  static Result<std::shared_ptr<const SafetensorsFile>> open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  /// By name, ascending.
  const std::map<std::string, StoredTensor, std::less<>>& tensors() const { return tensors_; }
  /// nullptr where there is none.
  const StoredTensor* find(std::string_view name) const;

  /// Fills `out` with bytes of a tensor of this file, from byte `first` of it on; they must lie within it.
  /// Errors, param the path: kIo; kCorrupt where the file was cut short. Allocates nothing unless it fails.
  Status read(const StoredTensor& tensor, int64_t first, std::span<std::byte> out) const;

  /// Whether what was read so far is from the content that was checked: InputFile::check_unchanged.
  Status check_unchanged() const { return file_.check_unchanged(); }

 private:
  explicit SafetensorsFile(InputFile file) : file_(std::move(file)) {}

  InputFile file_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

}  // namespace krait
