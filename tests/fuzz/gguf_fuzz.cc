// A GGUF file: what stands before its tensors, every byte of those, every list, the model's config and its tokenizer.
#include <numeric>
#include <vector>

#include "common/base/limits.h"
#include "common/model/model_config.h"
#include "common/weights/gguf.h"
#include "coordinator/tokenizer/gguf_tokenizer.h"
#include "tests/fuzz/weights_file.h"

namespace krait {
namespace {

template <class T>
void check_list(const Result<std::vector<T>>& list, int64_t count) {
  if (!list.ok()) return fuzz::check_file_error(list.error());
  CHECK_EQ(std::ssize(*list), count);
}

void check_metadata(const GgufFile& file) {
  for (const auto& [key, value] : file.metadata()) {
    const auto* array = std::get_if<GgufArray>(&value);
    CHECK_EQ(file.text(key).ok(), std::holds_alternative<std::string>(value));
    if (array == nullptr) continue;
    CHECK_GE(array->count, 0);
    check_list(file.texts(key), array->count);
    check_list(file.integers(key), array->count);
    check_list(file.numbers(key), array->count);
  }
}

/// Every byte of every tensor lies in the file, and no other tensor has it.
void check_tensors(const GgufFile& file, int64_t file_bytes) {
  std::vector<uint8_t> used(static_cast<size_t>(file_bytes));
  for (const auto& [name, tensor] : file.tensors()) {
    CHECK(file.find(name) == &tensor);
    if (fuzz::planted_at(std::accumulate(name.begin(), name.end(), uint64_t{0}))) fuzz::found_planted();
    const StoredBlock block = stored_block(tensor.dtype);
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) {
      CHECK_GE(extent, 0);
      CHECK(!__builtin_mul_overflow(elements, extent, &elements));
    }
    CHECK_EQ(elements % block.elements, 0);
    const int64_t bytes = tensor.bytes();
    CHECK(tensor.offset >= 0 && tensor.offset + bytes <= file_bytes);
    std::vector<std::byte> data(static_cast<size_t>(bytes));
    CHECK(file.read(tensor, 0, data).ok());
    for (int64_t i = 0; i < bytes; ++i)
      CHECK_EQ(used[static_cast<size_t>(tensor.offset + i)]++, 0);
  }
}

void check_config(const GgufFile& file) {
  const auto config = parse_model_config(gguf_config_json(file));
  if (!config.ok()) return fuzz::check_file_error(config.error());
  CHECK_LE(config->vocab_size, limits::kMaxVocab);
}

void check_tokenizer(const GgufFile& file) {
  const auto tokenizer = tokenizer::load_gguf_tokenizer(file);
  if (!tokenizer.ok()) return fuzz::check_file_error(tokenizer.error());
  if (*tokenizer == nullptr) return;
  const auto ids = (*tokenizer)->encode("a b\xc3\xa9 11", {});
  if (!ids.ok()) return;
  for (const int32_t id : *ids)
    CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
}

}  // namespace

KRAIT_FUZZ(gguf, input) {
  const auto file = GgufFile::open(fuzz::file_of(input));
  if (!file.ok()) return fuzz::check_file_error(file.error());
  check_metadata(**file);
  check_tensors(**file, static_cast<int64_t>(input.size()));
  check_config(**file);
  check_tokenizer(**file);
}

}  // namespace krait
