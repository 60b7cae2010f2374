#include "common/transport/ipc_path.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/limits.h"

namespace krait::transport {

static_assert(limits::kMaxIpcPathBytes < sizeof(sockaddr_un::sun_path));

Status check_ipc_path(const std::string& path) {
  if (path.empty() || path[0] == '*' || path[0] == '@' || path.find('\0') != std::string::npos) {
    return Error{Errc::kIo, fmt::format("ipc://{} names no file", path)};
  }
  if (std::cmp_greater(path.size(), limits::kMaxIpcPathBytes)) {
    return Error{Errc::kIo, fmt::format("ipc://{} has a path of {} bytes; the system allows {}", path, path.size(),
                                        limits::kMaxIpcPathBytes)};
  }
  return {};
}

Status remove_stale_ipc_socket(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return {};  // Nothing there, or a reason that bind() will name.
  if (!S_ISSOCK(info.st_mode)) {
    return Error{Errc::kIo, fmt::format("ipc://{}: the file exists and is no socket", path)};
  }
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return Error{Errc::kIo, fmt::format("ipc://{}: {}", path, std::strerror(errno))};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int refused = connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
  close(probe);
  if (refused == 0 || refused == EAGAIN) {
    return Error{Errc::kIo, fmt::format("ipc://{}: another process listens there", path)};
  }
  if (refused == ENOENT) return {};
  if (refused != ECONNREFUSED) return Error{Errc::kIo, fmt::format("ipc://{}: {}", path, std::strerror(refused))};
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return Error{Errc::kIo, fmt::format("ipc://{}: cannot remove the old socket: {}", path, std::strerror(errno))};
  }
  return {};
}

OwnedSocketFile::OwnedSocketFile(std::string path) : path_(std::move(path)) {
  struct stat info {};
  if (lstat(path_.c_str(), &info) != 0) return;
  device_ = info.st_dev;
  inode_ = info.st_ino;
}

OwnedSocketFile::~OwnedSocketFile() {
  struct stat info {};
  if (inode_ == 0 || lstat(path_.c_str(), &info) != 0) return;
  if (info.st_dev == device_ && info.st_ino == inode_) unlink(path_.c_str());
}

}  // namespace krait::transport
