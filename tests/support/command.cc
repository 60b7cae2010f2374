#include "tests/support/command.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>

#include "tests/support/golden.h"

namespace krait::test {

Outcome run_command(std::string_view program, std::string_view arguments, std::string_view input) {
  const ScratchDir folder;
  const std::string in = folder.write("in", input);
  const std::string command = fmt::format("'{}' {} < '{}' > '{}/out' 2> '{}/err'", program_path(program), arguments, in,
                                          folder.path(), folder.path());
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder.path() + "/out"),
          read_file(folder.path() + "/err")};
}

}  // namespace krait::test
