// Regular files: read whole, or in parts while they stay open. Never mapped: a mapped file that is cut short ends the
// process with SIGBUS, and one that is written to changes numbers that were checked long ago.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/result.h"

namespace krait {

/// A regular file, open for reading; any thread may read. A file that takes its place under the same name later does
/// not matter: this one goes on with the bits that it opened.
class InputFile final {
 public:
  /// Errors, param the path: kNotFound; kIo for what cannot be opened or is no regular file (a FIFO does not hang it).
  static Result<InputFile> open(const std::string& path);

  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  /// When it was opened.
  int64_t bytes() const { return bytes_; }

  /// Fills `out` from `offset` on. Errors, param the path: kIo; kCorrupt where the file ends before.
  Status read(int64_t offset, std::span<std::byte> out) const;

  /// kCorrupt, param the path, unless size and time of writing are what they were when it was opened. The kernel sets
  /// the time before it changes the content, so what was read before a sound answer was read from the same content. (A
  /// write within the same tick of the kernel's clock as the one before the opening, 4 ms, would not be seen.)
  Status check_unchanged() const;

 private:
  InputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_ = -1;
  int64_t bytes_ = 0;
  int64_t written_ns_ = 0;  // the time of the last write
};

/// Whether there is an entry of that name, whatever it is: a link that leads nowhere counts, since it was meant to be
/// read.
bool entry_exists(const std::string& path);

/// All of a regular file. Errors as InputFile's, and kTooLarge beyond `max_bytes`.
Result<std::string> read_text_file(const std::string& path, int64_t max_bytes);

}  // namespace krait
