// What stands at the path of an ipc:// address, looked at before ZeroMQ takes it over without asking.
#pragma once

#include <sys/types.h>

#include <string>

#include "common/base/result.h"

namespace krait::transport {

/// The part after "ipc://" is a usable path: not empty, no wildcard, at most limits::kMaxIpcPathBytes. Error kIo.
Status check_ipc_path(const std::string& path);

/// Removes the socket file of a process that is gone. Error kIo when somebody listens there, or when something else
/// than a socket has the name; it is left alone then.
Status remove_stale_ipc_socket(const std::string& path);

/// The socket file that we have just bound; its end removes the file (ZeroMQ leaves it), unless another one has the
/// name by then.
class OwnedSocketFile final {
 public:
  explicit OwnedSocketFile(std::string path);
  ~OwnedSocketFile();
  OwnedSocketFile(const OwnedSocketFile&) = delete;
  OwnedSocketFile& operator=(const OwnedSocketFile&) = delete;

 private:
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace krait::transport
