#include "coordinator/api/client_key.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "common/base/rng.h"

namespace krait::api {

/// FNV-1a and a finalizer, 64 bits from each of two starts: equal for two keys of one server by no accident.
std::string key_hash(std::string_view key) {
  uint64_t halves[2] = {0xcbf29ce484222325, 0x9ae16a3b2f90404f};
  for (uint64_t& half : halves) {
    for (const char byte : key)
      half = (half ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    half = SplitMix64(half).next();
  }
  return fmt::format("key-{:016x}{:016x}", halves[0], halves[1]);
}

std::string_view bearer_key(const http::Request& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const auto header = request.headers.find("Authorization");
  if (!header || !http::names_equal(header->substr(0, kScheme.size()), kScheme)) return {};
  return header->substr(kScheme.size());
}

std::string peer_address(const http::Request& request) {
  return request.peer.substr(0, request.peer.rfind(':'));
}

}  // namespace krait::api
