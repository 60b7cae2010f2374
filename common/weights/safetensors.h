// One safetensors file, mapped read-only. Nothing is believed: a file that opens has every tensor inside its data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/tensor/tensor_view.h"

namespace krait {

/// Views stay valid as long as the object. Threads may read it at the same time.
class SafetensorsFile final {
 public:
  /// Maps and checks the file. Refused: header longer than the file or the limit, JSON that is not the format's,
  /// duplicate names, unknown dtypes, shapes whose size overflows or differs from their bytes, offsets outside the
  /// data, overlaps, gaps, bytes after the last tensor. Errors (kIo, kCorrupt, kUnsupported) name file and tensor;
  /// `param` is the tensor, or the path where the whole file is at fault.
  static Result<std::shared_ptr<const SafetensorsFile>> open(const std::string& path);

  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  /// By name, ascending.
  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  /// nullptr where there is none.
  const TensorView* find(std::string_view name) const;

  /// Gives back the resident pages that lie wholly inside the view; reading it again is correct, only slower.
  void drop_pages(const TensorView& view) const;

 private:
  SafetensorsFile() = default;

  std::string path_;
  const std::byte* map_ = nullptr;
  size_t map_bytes_ = 0;
  std::map<std::string, TensorView, std::less<>> tensors_;
};

}  // namespace krait
