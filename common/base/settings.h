// A daemon's settings: command line options, and the same names in a TOML file given by --config (the command line
// wins).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace krait {

class Settings final {
 public:
  /// `program` and `version` are what --version prints.
  Settings(std::string_view program, std::string_view description, std::string_view version);
  ~Settings();

  /// Options added from now on stand under `title` in --help.
  void section(std::string_view title);

  // Each adds the option --name (and the key `name` of the file) that sets `target`, whose value now is the default.
  // Targets must outlive parse().
  void add(std::string_view name, std::string& target, std::string_view help, bool required = false);
  void add(std::string_view name, std::vector<std::string>& target, std::string_view help, bool required = false);
  void add(std::string_view name, int64_t& target, std::string_view help, int64_t least, int64_t most);
  void add(std::string_view name, double& target, std::string_view help, double least, double most);
  void add_choice(std::string_view name, std::string& target, std::string_view help,
                  const std::vector<std::string>& choices);
  void add_flag(std::string_view name, bool& target, std::string_view help);

  /// True: go on. False: --help or --version has been printed, end with success. Error kInvalidArgument names the
  /// option or the key and line of the file; unknown ones are errors.
  Result<bool> parse(int argc, const char* const* argv);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

/// What an option asked for and did not get: the error's words name the option.
template <class T>
Result<T> blame_option(std::string_view option, Result<T> result) {
  if (result.ok()) return result;
  Error error = result.error();
  error.message += fmt::format(" (asked for with --{})", option);
  return error;
}

/// The rest of main(): exit code 2 and a line on standard error where the settings were wrong, 0 where --help or
/// --version was all, else what `serve` ends with: 0, or 1 and a last log line. An exception that leaves it ends so
/// too.
int run_program(std::string_view program, const Result<bool>& parsed, const std::function<Status()>& serve);

}  // namespace krait
