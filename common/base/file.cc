#include "common/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/units.h"

namespace krait {
namespace {

Error io_error(const std::string& path, std::string_view what) {
  return {errno == ENOENT ? Errc::kNotFound : Errc::kIo, fmt::format("{}: {}: {}", path, what, std::strerror(errno)),
          path};
}

int64_t written_ns(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * kSecond + info.st_mtim.tv_nsec;
}

}  // namespace

Result<InputFile> InputFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return io_error(path, "cannot be opened");
  InputFile file(path, fd);
  struct stat info {};
  if (fstat(fd, &info) != 0) return io_error(path, "cannot be examined");
  if (!S_ISREG(info.st_mode)) return Error{Errc::kIo, fmt::format("{}: not a regular file", path), path};
  file.bytes_ = info.st_size;
  file.written_ns_ = written_ns(info);
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(other.bytes_),
      written_ns_(other.written_ns_) {}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

Status InputFile::read(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(fd_, out.data(), out.size(), offset);
    if (got < 0) {
      if (errno == EINTR) continue;
      return io_error(path_, "cannot be read");
    }
    if (got == 0) {
      return Error{Errc::kCorrupt, fmt::format("{}: was cut short: it ends before byte {}", path_, offset + 1), path_};
    }
    offset += got;
    out = out.subspan(static_cast<size_t>(got));
  }
  return {};
}

Status InputFile::check_unchanged() const {
  struct stat info {};
  if (fstat(fd_, &info) != 0) return io_error(path_, "cannot be examined");
  if (info.st_size == bytes_ && written_ns(info) == written_ns_) return {};
  return Error{Errc::kCorrupt,
               fmt::format("{}: was written to after it was opened ({} bytes then, {} now)", path_, bytes_,
                           int64_t{info.st_size}),
               path_};
}

bool entry_exists(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0;
}

Result<std::string> read_text_file(const std::string& path, int64_t max_bytes) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::open(path));
  if (file.bytes() > max_bytes) {
    return Error{Errc::kTooLarge, fmt::format("{}: {} bytes, more than {}", path, file.bytes(), max_bytes), path};
  }
  std::string text(static_cast<size_t>(file.bytes()), '\0');
  RETURN_IF_ERROR(file.read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace krait
