#include "common/weights/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/limits.h"
#include "common/weights/safetensors_header.h"

namespace krait {
namespace {

constexpr size_t kLengthBytes = 8;  // little-endian length of the header
static_assert(std::endian::native == std::endian::little, "lengths and weights are read as they lie in the file");

struct Mapping final {
  const std::byte* data = nullptr;
  size_t bytes = 0;
};

Error io_error(const std::string& path, std::string_view what) {
  return {errno == ENOENT ? Errc::kNotFound : Errc::kIo, fmt::format("{}: {}: {}", path, what, std::strerror(errno)),
          path};
}

Result<Mapping> map_descriptor(int fd, const std::string& path) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return io_error(path, "cannot be examined");
  if (!S_ISREG(info.st_mode)) return Error{Errc::kIo, fmt::format("{}: not a regular file", path), path};
  const auto bytes = static_cast<size_t>(info.st_size);
  if (bytes < kLengthBytes) return Error{Errc::kCorrupt, fmt::format("{}: only {} bytes", path, bytes), path};
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return io_error(path, "cannot be mapped");
  return Mapping{static_cast<const std::byte*>(data), bytes};
}

Result<Mapping> map_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not hang it
  if (fd < 0) return io_error(path, "cannot be opened");
  Result<Mapping> mapping = map_descriptor(fd, path);
  ::close(fd);
  return mapping;
}

}  // namespace

Result<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::open(const std::string& path) {
  ASSIGN_OR_RETURN(const Mapping mapping, map_file(path));
  std::shared_ptr<SafetensorsFile> file(new SafetensorsFile());
  file->path_ = path;
  file->map_ = mapping.data;
  file->map_bytes_ = mapping.bytes;

  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, mapping.data, kLengthBytes);
  const uint64_t rest = mapping.bytes - kLengthBytes;
  if (header_bytes > rest || header_bytes > static_cast<uint64_t>(limits::kMaxSafetensorsHeaderBytes)) {
    return Error{Errc::kCorrupt,
                 fmt::format("{}: header of {} bytes in a file of {}", path, header_bytes, mapping.bytes), path};
  }
  const std::string_view header(reinterpret_cast<const char*>(mapping.data) + kLengthBytes, header_bytes);
  const std::byte* data = mapping.data + kLengthBytes + header_bytes;
  ASSIGN_OR_RETURN(std::vector<SafetensorsEntry> entries,
                   parse_safetensors_header(header, static_cast<int64_t>(rest - header_bytes), path));
  for (SafetensorsEntry& entry : entries) {
    file->tensors_.emplace(std::move(entry.name), TensorView{entry.dtype, std::move(entry.shape), data + entry.begin});
  }
  return std::shared_ptr<const SafetensorsFile>(std::move(file));
}

SafetensorsFile::~SafetensorsFile() {
  // MAP_PRIVATE and read-only: unmapping cannot fail for a range that mmap gave.
  if (map_ != nullptr) munmap(const_cast<std::byte*>(map_), map_bytes_);
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

void SafetensorsFile::drop_pages(const TensorView& view) const {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(view.data);
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + static_cast<uintptr_t>(view.bytes())) / page * page;
  // Advice only: where it is refused, the pages stay and nothing is wrong.
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace krait
