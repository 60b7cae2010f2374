#include "common/weights/safetensors.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/weights/safetensors_header.h"

namespace krait {
namespace {

constexpr int64_t kLengthBytes = 8;  // little-endian length of the header
static_assert(std::endian::native == std::endian::little, "lengths and weights are read as they lie in the file");

/// What a file of another kind is, where its first bytes tell: a download that went wrong is often a text.
Result<std::string> what_it_is(const InputFile& input) {
  constexpr int64_t kLookedAt = 40;
  std::string begin(static_cast<size_t>(std::min(kLookedAt, input.bytes())), '\0');
  RETURN_IF_ERROR(input.read(0, std::as_writable_bytes(std::span(begin))));
  if (begin.starts_with("version https://git-lfs")) {
    return std::string("a pointer of Git LFS, not the file that it stands for: fetch that with 'git lfs pull'");
  }
  const auto is_text = [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t'; };
  if (!std::all_of(begin.begin(), begin.end(), is_text)) return std::string();
  std::replace_if(
      begin.begin(), begin.end(), [](char c) { return c < ' '; }, ' ');
  return fmt::format("no safetensors file but a text that begins with '{}'", begin);
}

}  // namespace

Result<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::open(const std::string& path) {
  ASSIGN_OR_RETURN(InputFile input, InputFile::open(path));
  if (input.bytes() < kLengthBytes) {
    return Error{Errc::kCorrupt, fmt::format("{}: only {} bytes", path, input.bytes()), path};
  }
  uint64_t header_bytes = 0;
  RETURN_IF_ERROR(input.read(0, std::as_writable_bytes(std::span(&header_bytes, 1))));
  const int64_t rest = input.bytes() - kLengthBytes;
  if (header_bytes > static_cast<uint64_t>(rest) ||
      header_bytes > static_cast<uint64_t>(limits::kMaxSafetensorsHeaderBytes)) {
    ASSIGN_OR_RETURN(const std::string kind, what_it_is(input));
    if (!kind.empty()) return Error{Errc::kCorrupt, fmt::format("{} is {}", path, kind), path};
    return Error{Errc::kCorrupt,
                 fmt::format("{}: header of {} bytes in a file of {}, at most {} are read", path, header_bytes,
                             input.bytes(), limits::kMaxSafetensorsHeaderBytes),
                 path};
  }
  std::string header(header_bytes, '\0');
  RETURN_IF_ERROR(input.read(kLengthBytes, std::as_writable_bytes(std::span(header))));
  const auto header_end = kLengthBytes + static_cast<int64_t>(header_bytes);
  ASSIGN_OR_RETURN(std::vector<SafetensorsEntry> entries,
                   parse_safetensors_header(header, input.bytes() - header_end, path));
  std::shared_ptr<SafetensorsFile> file(new SafetensorsFile(std::move(input)));
  for (SafetensorsEntry& entry : entries) {
    file->tensors_.emplace(std::move(entry.name),
                           StoredTensor{entry.dtype, std::move(entry.shape), header_end + entry.begin});
  }
  return std::shared_ptr<const SafetensorsFile>(std::move(file));
}

Status SafetensorsFile::read(const StoredTensor& tensor, int64_t first, std::span<std::byte> out) const {
  CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tensor.bytes());
  return file_.read(tensor.offset + first, out);
}

}  // namespace krait
