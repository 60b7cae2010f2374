// A safetensors file: the whole of it, or ("H" first) eight bytes of data size and the header alone,
// so that sizes far beyond an input's are reached too.
#include <numeric>
#include <vector>

#include "common/weights/safetensors.h"
#include "common/weights/safetensors_header.h"
#include "tests/fuzz/weights_file.h"

namespace krait {
namespace {

int64_t bytes_of(DType dtype, const Shape& shape) {
  int64_t bytes = dtype_bytes(dtype);
  for (const int64_t extent : shape) {
    CHECK_GE(extent, 0);
    CHECK(!__builtin_mul_overflow(bytes, extent, &bytes));
  }
  return bytes;
}

void run_header(fuzz::Input input) {
  fuzz::Source source(input);
  const auto data_bytes = static_cast<int64_t>(source.take<uint64_t>() >> 2);
  const auto entries = parse_safetensors_header(fuzz::text(source.rest()), data_bytes, "FILE");
  if (!entries.ok()) return fuzz::check_file_error(entries.error());
  int64_t at = 0;
  for (const auto& entry : *entries) {
    CHECK_EQ(entry.begin, at);
    CHECK_EQ(entry.end - entry.begin, bytes_of(entry.dtype, entry.shape));
    at = entry.end;
  }
  CHECK_EQ(at, data_bytes);
}

void run_file(fuzz::Input input) {
  const auto file = SafetensorsFile::open(fuzz::file_of(input));
  if (!file.ok()) return fuzz::check_file_error(file.error());
  int64_t all_bytes = 0;
  unsigned sum = 0;  // Every byte is read.
  for (const auto& [name, view] : (*file)->tensors()) {
    CHECK((*file)->find(name) == &view);
    const int64_t bytes = bytes_of(view.dtype, view.shape);
    std::vector<std::byte> data(static_cast<size_t>(bytes));
    CHECK((*file)->read(view, 0, data).ok());
    for (const std::byte byte : data)
      sum += static_cast<unsigned>(byte);
    all_bytes += bytes;
    if (fuzz::planted_at(std::accumulate(name.begin(), name.end(), uint64_t{0}))) fuzz::found_planted();
  }
  CHECK_LE(all_bytes, static_cast<int64_t>(input.size()));
  CHECK_EQ(sum, std::accumulate(input.end() - all_bytes, input.end(), 0u));
}

}  // namespace

KRAIT_FUZZ(safetensors, input) {
  if (!input.empty() && input[0] == 'H') {
    run_header(input.subspan(1));
  } else {
    run_file(input);
  }
}

}  // namespace krait
