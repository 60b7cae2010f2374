// A TOML file as a list of keys, values and lines. Settings use it; nothing else reads TOML.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace krait {

struct TomlEntry final {
  std::string key;
  std::vector<std::string> values;  // one, or those of an array
  int64_t line = 0;                 // where its value begins, from 1
};

/// The entries of a file of plain keys. Errors: kInvalidArgument, param the line's number: no TOML, a table, an array
/// in an array, a date or time.
Result<std::vector<TomlEntry>> read_toml(std::istream& in);

}  // namespace krait
