#include "kernels/device/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/base/units.h"

namespace krait::kernels {
namespace {

constexpr int64_t kHugePageBytes = 2 * kMiB;
constexpr int64_t kPageBytes = 4 * kKiB;
constexpr int64_t kChunkBytes = 32 * kMiB;  // of a mapping that was not reserved
constexpr int64_t kMaxBytes = std::numeric_limits<int64_t>::max() / 4;

void ask_for_huge_pages(std::byte* data, int64_t bytes) {
  if (madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE) == 0) return;
  static std::atomic<bool> told = false;
  if (!told.exchange(true)) log_warning("no huge pages: {}; decoding will be slower", std::strerror(errno));
}

}  // namespace

Arena::~Arena() {
  for (const Chunk& chunk : chunks_)
    munmap(chunk.data, static_cast<size_t>(chunk.bytes));
}

int64_t Arena::piece_bytes(int64_t bytes) {
  return round_up(std::max<int64_t>(bytes, 1), kAlignment);
}

Error Arena::out_of_memory(int64_t bytes) const {
  const std::string why = std::strerror(errno);
  return {Errc::kResourceExhausted, fmt::format("no {} MiB of memory for {}: {}", ceil_div(bytes, kMiB), purpose_, why),
          ""};
}

Status Arena::reserve(int64_t bytes) {
  CHECK_GE(bytes, 0);
  if (!chunks_.empty() && chunks_.back().bytes - chunks_.back().used >= bytes) return {};
  return map_chunk(bytes);
}

Result<std::byte*> Arena::allocate(int64_t bytes) {
  CHECK_GE(bytes, 0);
  if (bytes > kMaxBytes) {
    errno = ENOMEM;
    return out_of_memory(bytes);
  }
  const int64_t piece = piece_bytes(bytes);
  if (chunks_.empty() || chunks_.back().bytes - chunks_.back().used < piece) {
    RETURN_IF_ERROR(map_chunk(std::max(piece, kChunkBytes)));
  }
  Chunk& chunk = chunks_.back();
  std::byte* const data = chunk.data + chunk.used;
  chunk.used += piece;
  bytes_ += piece;
  return data;
}

Status Arena::map_chunk(int64_t bytes) {
  if (bytes > kMaxBytes) {
    errno = ENOMEM;
    return out_of_memory(bytes);
  }
  // The kernel promises more than it has, and then ends the process that believes it.
  const int64_t addresses = address_space_left_bytes();
  const int64_t free_bytes = std::min(available_memory_bytes(), addresses);
  if (bytes > free_bytes) {
    return Error{
        Errc::kResourceExhausted,
        fmt::format("{} MiB of memory are needed at once for {}, and {} MiB are free ({})", ceil_div(bytes, kMiB),
                    purpose_, free_bytes / kMiB, free_bytes == addresses ? "ulimit -v" : "machine and cgroup"),
        ""};
  }
  // The length is no multiple of a huge page: the last, partly used one would be resident as a whole.
  const int64_t length = round_up(std::max<int64_t>(bytes, 1), kPageBytes);
  const int64_t span = length + kHugePageBytes;
  void* const mapped =
      mmap(nullptr, static_cast<size_t>(span), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return out_of_memory(bytes);
  auto* const begin = static_cast<std::byte*>(mapped);
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(mapped));
  const int64_t head = round_up(address, kHugePageBytes) - address;
  if (head > 0) munmap(begin, static_cast<size_t>(head));
  if (span - head - length > 0) munmap(begin + head + length, static_cast<size_t>(span - head - length));
  ask_for_huge_pages(begin + head, length);
  chunks_.push_back({begin + head, length, 0});
  mapped_bytes_ += length;
  return {};
}

}  // namespace krait::kernels
