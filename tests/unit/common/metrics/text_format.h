// A strict reader of the Prometheus text format 0.0.4, written from its description and from nothing of ours.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace krait::metrics::test {

struct Exposition final {
  std::map<std::string, std::string> types;  // name of a family -> counter, gauge, histogram
  std::map<std::string, std::string> helps;
  std::map<std::string, double> samples;  // name{label="value",...} with labels sorted, values as written
  std::string fault;                      // the first one, with its line; empty when there is none
};

/// Faults: what the grammar does not have, a second HELP or TYPE, a TYPE after its samples, families that are not in
/// one piece, a series twice, a negative or infinite counter, buckets that fall, no +Inf bucket or one unlike _count.
Exposition read_text_format(const std::string& text);

}  // namespace krait::metrics::test
