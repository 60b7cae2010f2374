// Where reference data lies after a build, and what is in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/weights/safetensors.h"

namespace krait::test {

/// Absolute path of a file or folder of tests/golden, unpacked: golden_path("models/mamba").
std::string golden_path(std::string_view relative);
/// Absolute path of a file of the source tree: source_path("deploy/demo_model").
std::string source_path(std::string_view relative);
/// Absolute path of a program of the build, by its name.
std::string program_path(std::string_view name);

/// Families that have a fixture: all but those that are other spellings of some.
std::vector<std::string> golden_families();

/// A safetensors file of reference values. A missing file, a missing tensor or another dtype throws std::runtime_error:
/// the test fails and says which.
class Reference final {
 public:
  explicit Reference(const std::string& path);

  bool has(std::string_view name) const;
  const Shape& shape(std::string_view name) const;
  /// F32, row-major.
  std::vector<float> floats(std::string_view name) const;
  /// I32.
  std::vector<int32_t> ints(std::string_view name) const;

 private:
  const StoredTensor& get(std::string_view name, DType dtype) const;

  std::shared_ptr<const SafetensorsFile> file_;
};

/// A new empty folder that is removed with all it holds when the object goes.
class ScratchDir final {
 public:
  ScratchDir();
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  const std::string& path() const { return path_; }
  /// Writes a file of the folder, over an older one, and returns its path.
  std::string write(std::string_view name, std::string_view content) const;

 private:
  std::string path_;
};

/// The whole file as bytes; throws where it cannot be read.
std::string read_file(const std::string& path);

}  // namespace krait::test
