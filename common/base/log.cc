#include "common/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <utility>

#include "common/base/log_capture.h"

namespace krait {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("krait", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %L %v");
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *instance;
}

std::function<void(LogLevel, std::string_view)>& capture() {
  static std::function<void(LogLevel, std::string_view)> take;
  return take;
}

}  // namespace

void capture_log(std::function<void(LogLevel level, std::string_view message)> take) {
  capture() = std::move(take);
}

void init_log(std::string_view name, LogLevel level) {
  logger().set_level(level_of(level));
  logger().set_pattern(fmt::format("%Y-%m-%dT%H:%M:%S.%e %L [{}] %v", name));
}

void log_line(LogLevel level, std::string_view message) {
  if (capture()) return capture()(level, message);
  logger().log(level_of(level), message);
}

}  // namespace krait
