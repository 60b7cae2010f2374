// Threads that say what they were for when the system does not give them.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace krait {

/// A thread that runs `work`. Where the system refuses, std::system_error: "cannot start a thread for PURPOSE: why".
template <class Work>
std::thread start_thread(std::string_view purpose, Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    throw std::system_error(error.code(), fmt::format("cannot start a thread for {}", purpose));
  }
}

}  // namespace krait
