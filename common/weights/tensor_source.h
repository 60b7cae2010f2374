// Where a checkpoint's tensors come from: a file of some format, or something that makes them up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/tensor/stored_tensor.h"

namespace krait {

/// Threads may read it at the same time.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  /// What errors call it: the path of a file.
  virtual const std::string& name() const = 0;

  /// By name, ascending. They stay where they are as long as the source.
  virtual const std::map<std::string, StoredTensor, std::less<>>& tensors() const = 0;

  /// nullptr where there is none.
  const StoredTensor* find(std::string_view tensor) const {
    const auto at = tensors().find(tensor);
    return at == tensors().end() ? nullptr : &at->second;
  }

  /// Fills `out` with bytes of a tensor of this source, from byte `first` of it on; they must lie within it.
  /// Errors, param the source's name: kIo; kCorrupt where the file was cut short. Allocates nothing unless it fails.
  virtual Status read(const StoredTensor& tensor, int64_t first, std::span<std::byte> out) const = 0;

  /// Whether what was read so far is from the content that was there at the start: kCorrupt, naming the source, where
  /// it is not.
  virtual Status check_unchanged() const = 0;
};

}  // namespace krait
