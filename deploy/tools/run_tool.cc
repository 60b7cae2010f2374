#include "deploy/tools/run_tool.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>

#include "common/base/log.h"

namespace krait::tools {

int run_tool(std::string_view tool, const Result<bool>& parsed, const std::function<Status()>& work) {
  const auto say = [&](std::string_view what) { fmt::print(stderr, "{}: {}\n", tool, what); };
  if (!parsed.ok()) {
    say(parsed.error().message);
    return 2;
  }
  if (!*parsed) return 0;
  init_log(tool, LogLevel::kWarning);
  try {
    const Status status = work();
    if (status.ok()) return 0;
    say(status.error().message);
    return status.error().code == Errc::kInvalidArgument ? 2 : 1;
  } catch (const std::bad_alloc&) {
    say("out of memory");
  } catch (const std::exception& error) {
    say(error.what());
  }
  return 1;
}

Status print_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return {};
  return Error{Errc::kIo, "standard output cannot be written", ""};
}

}  // namespace krait::tools
