#include "tests/support/golden.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "common/model/architecture.h"

namespace krait::test {
namespace {

template <class T>
std::vector<T> elements(const SafetensorsFile& file, const StoredTensor& tensor) {
  std::vector<T> values(static_cast<size_t>(tensor.elements()));
  const Status read = file.read(tensor, 0, std::as_writable_bytes(std::span(values)));
  if (!read.ok()) throw std::runtime_error(to_string(read.error()));
  return values;
}

}  // namespace

std::string golden_path(std::string_view relative) {
  return fmt::format("{}/golden/{}", KRAIT_BUILD_DIR, relative);
}

std::string source_path(std::string_view relative) {
  return fmt::format("{}/{}", KRAIT_SOURCE_DIR, relative);
}

std::string program_path(std::string_view name) {
  return fmt::format("{}/bin/{}", KRAIT_BUILD_DIR, name);
}

std::vector<std::string> golden_families() {
  std::vector<std::string> families;
  for (const Architecture* architecture : all_architectures()) {
    std::string name(architecture->name);
    if (std::filesystem::exists(golden_path("models/" + name))) families.push_back(std::move(name));
  }
  return families;
}

Reference::Reference(const std::string& path) {
  auto file = SafetensorsFile::open(path);
  if (!file.ok()) throw std::runtime_error(to_string(file.error()));
  file_ = std::move(file).value();
}

bool Reference::has(std::string_view name) const {
  return file_->find(name) != nullptr;
}

const Shape& Reference::shape(std::string_view name) const {
  const StoredTensor* view = file_->find(name);
  if (view == nullptr) throw std::runtime_error(fmt::format("{} has no tensor {}", file_->name(), name));
  return view->shape;
}

const StoredTensor& Reference::get(std::string_view name, DType dtype) const {
  const StoredTensor* view = file_->find(name);
  if (view == nullptr || view->dtype != dtype) {
    throw std::runtime_error(fmt::format("{} has no {} tensor {}", file_->name(), dtype_name(dtype), name));
  }
  return *view;
}

std::vector<float> Reference::floats(std::string_view name) const {
  return elements<float>(*file_, get(name, DType::kF32));
}

std::vector<int32_t> Reference::ints(std::string_view name) const {
  return elements<int32_t>(*file_, get(name, DType::kI32));
}

ScratchDir::ScratchDir() {
  std::string name = (std::filesystem::temp_directory_path() / "krait-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch folder can be made: " + name);
  path_ = name;
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;  // a leftover in the temporary folder must not hide what the test found
  std::filesystem::remove_all(path_, ignored);
}

std::string ScratchDir::write(std::string_view name, std::string_view content) const {
  std::string path = fmt::format("{}/{}", path_, name);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
  return path;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  if (!file) throw std::runtime_error("cannot read " + path);
  return std::move(content).str();
}

}  // namespace krait::test
