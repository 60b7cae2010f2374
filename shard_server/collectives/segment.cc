#include "shard_server/collectives/segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "common/base/log.h"
#include "shard_server/collectives/fd.h"

namespace krait::collectives {
namespace {

constexpr const char* kShmFolder = "/dev/shm";

Error io_error(std::string_view what, const std::string& name, int error) {
  return Error{Errc::kIo, fmt::format("{} of shared segment {}: {}", what, name, std::strerror(error)), ""};
}

bool has_this_inode(const std::string& name, int fd) {
  const Fd other(shm_open(name.c_str(), O_RDONLY | O_CLOEXEC, 0));
  struct stat named {};
  struct stat held {};
  return other.get() >= 0 && fstat(other.get(), &named) == 0 && fstat(fd, &held) == 0 && named.st_ino == held.st_ino &&
         named.st_dev == held.st_dev;
}

// The maker's lock. Others take it for a moment only, to see whether the maker lives. False: the name was taken away
// meanwhile by one who looked before the lock was there.
bool lock_as_maker(int fd) {
  while (flock(fd, LOCK_EX) != 0 && errno == EINTR) {
  }
  struct stat held {};
  return fstat(fd, &held) == 0 && held.st_nlink > 0;
}

Status allocate(int fd, const std::string& name, int64_t bytes) {
  int error;
  do {
    error = posix_fallocate(fd, 0, bytes);
  } while (error == EINTR);
  if (error == 0) return {};
  if (error != ENOSPC && error != ENOMEM) return io_error("allocation", name, error);
  struct statvfs space {};
  const bool known = fstatvfs(fd, &space) == 0;
  const int64_t free_bytes = known ? static_cast<int64_t>(space.f_bavail) * static_cast<int64_t>(space.f_frsize) : -1;
  return Error{Errc::kResourceExhausted,
               fmt::format("{} is too small: a group's collectives need {} bytes there, {} are free (a container's "
                           "share is set with --shm-size)",
                           kShmFolder, bytes, free_bytes),
               ""};
}

Result<std::byte*> map(int fd, const std::string& name, int64_t bytes) {
  void* data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (data == MAP_FAILED) return io_error("mapping", name, errno);
  return static_cast<std::byte*>(data);
}

}  // namespace

std::string segment_name(std::string_view group, uint64_t epoch) {
  return fmt::format("{}{}-{:016x}", kSegmentPrefix, group, epoch);
}

Segment::Segment(std::string name, std::byte* data, int64_t bytes, int lock_fd)
    : name_(std::move(name)), data_(data), bytes_(bytes), lock_fd_(lock_fd) {}

Segment::Segment(Segment&& other) noexcept
    : name_(std::move(other.name_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      lock_fd_(std::exchange(other.lock_fd_, -1)) {}

Segment::~Segment() {
  if (lock_fd_ >= 0) unlink();
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

void Segment::unlink() {
  // The name first: while it is there, it is locked.
  shm_unlink(name_.c_str());
  if (lock_fd_ >= 0) close(std::exchange(lock_fd_, -1));
}

Result<Segment> Segment::create(const std::string& name, int64_t bytes) {
  constexpr int kTries = 8;  // each lost to somebody who cleaned up at that moment
  for (int tries = 0; tries < kTries; ++tries) {
    Fd fd(shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (fd.get() < 0) {
      if (errno != EEXIST) return io_error("creation", name, errno);
      if (remove_if_stale(name)) continue;
      return Error{Errc::kUnavailable, fmt::format("shared segment {} is in use by another group", name), ""};
    }
    if (!lock_as_maker(fd.get())) continue;
    Segment segment(name, nullptr, bytes, fd.release());
    RETURN_IF_ERROR(allocate(segment.lock_fd_, name, bytes));
    ASSIGN_OR_RETURN(segment.data_, map(segment.lock_fd_, name, bytes));
    return segment;
  }
  return Error{Errc::kUnavailable, fmt::format("shared segment {} was removed {} times while made", name, kTries), ""};
}

Result<std::optional<Segment>> Segment::open(const std::string& name, int64_t bytes) {
  const Fd fd(shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  if (fd.get() < 0) {
    if (errno == ENOENT) return std::optional<Segment>();
    return io_error("opening", name, errno);
  }
  struct stat held {};
  if (fstat(fd.get(), &held) != 0) return io_error("inspection", name, errno);
  // An unlocked one is a dead run's, or its maker has not locked it yet.
  const bool unlocked = flock(fd.get(), LOCK_SH | LOCK_NB) == 0;
  if (unlocked || held.st_size < bytes) return std::optional<Segment>();
  ASSIGN_OR_RETURN(std::byte* const data, map(fd.get(), name, bytes));
  return std::optional<Segment>(Segment(name, data, bytes, -1));
}

bool remove_if_stale(const std::string& name) {
  const Fd fd(shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  if (fd.get() < 0 || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return false;
  return has_this_inode(name, fd.get()) && shm_unlink(name.c_str()) == 0;
}

int remove_stale_segments() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(kShmFolder), closedir);
  if (folder == nullptr) return 0;
  int removed = 0;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(kSegmentPrefix) || !remove_if_stale(std::string(name))) continue;
    log_info("removed shared segment {} of a run that is gone", name);
    ++removed;
  }
  return removed;
}

}  // namespace krait::collectives
