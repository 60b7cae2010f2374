#include "common/wire/addresses.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/base/limits.h"

namespace krait::wire {
namespace {

constexpr std::string_view kIpc = "ipc://";

Error bad_run_dir(const std::string& run_dir, std::string_view why) {
  return {Errc::kInvalidArgument, fmt::format("--run-dir '{}': {}", run_dir, why), "run-dir"};
}

}  // namespace

std::string leader_address(const std::string& run_dir, const std::string& group) {
  return fmt::format("{}{}/{}.ipc", kIpc, run_dir, group);
}

std::string ranks_address(const std::string& run_dir, const std::string& group) {
  return fmt::format("{}{}/{}-ranks.ipc", kIpc, run_dir, group);
}

krait::Status check_group_name(const std::string& name) {
  const auto allowed = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_'; };
  if (!name.empty() && std::cmp_less_equal(name.size(), limits::kMaxGroupNameBytes) &&
      std::all_of(name.begin(), name.end(), allowed))
    return {};
  return Error{Errc::kInvalidArgument,
               fmt::format("--group '{}': a group's name is 1 to {} letters, digits, '-' and '_'", name,
                           limits::kMaxGroupNameBytes),
               "group"};
}

krait::Status check_run_dir(const std::string& run_dir) {
  if (run_dir.empty()) return bad_run_dir(run_dir, "an empty name is no folder");
  struct stat entry {};
  if (stat(run_dir.c_str(), &entry) == 0) {
    if (S_ISDIR(entry.st_mode)) return {};
    return bad_run_dir(run_dir, "not a folder");
  }
  if (errno == ENOENT) return {};
  return bad_run_dir(run_dir, std::strerror(errno));
}

std::string why_silent(const std::string& address) {
  struct stat entry {};
  if (!address.starts_with(kIpc)) return "nothing was heard from there";
  if (stat(address.c_str() + kIpc.size(), &entry) != 0) {
    return errno == ENOENT ? "there is no socket there"
                           : fmt::format("no socket can be there ({})", std::strerror(errno));
  }
  return S_ISSOCK(entry.st_mode) ? "nothing was heard from there" : "what is there is no socket";
}

}  // namespace krait::wire
