// One line an event on standard error: time, level, message. Prompts and generated text are never logged.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace krait {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// The name is the process ("coordinator", "shard 0/1"); lines below `level` are dropped. Call once, before threads.
void init_log(std::string_view name, LogLevel level);
void log_line(LogLevel level, std::string_view message);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace krait
