// A program of the build, run as people run it.
#pragma once

#include <string>
#include <string_view>

namespace krait::test {

struct Outcome final {
  int exit_code = 0;  // -1: a signal ended it
  std::string out;
  std::string err;
};

/// Runs the build's bin/`program` with `arguments` as a shell reads them and `input` on its standard input.
Outcome run_command(std::string_view program, std::string_view arguments, std::string_view input = "");

}  // namespace krait::test
