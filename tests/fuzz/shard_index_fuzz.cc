// model.safetensors.index.json: whatever is taken names plain files of the checkpoint's own folder.
#include <numeric>

#include "common/weights/shard_index.h"
#include "tests/fuzz/harness.h"

namespace krait {

KRAIT_FUZZ(shard_index, input) {
  const auto index = parse_shard_index(fuzz::text(input), "FILE");
  if (!index.ok()) {
    CHECK(index.error().code == Errc::kCorrupt || index.error().code == Errc::kTooLarge);
    return fuzz::check_error_text(index.error().message, index.error().param);
  }
  CHECK(!index->empty());
  for (const auto& [tensor, file] : *index) {
    CHECK(file.find('/') == std::string::npos && file.find('\0') == std::string::npos && file[0] != '.');
    CHECK(file.ends_with(".safetensors"));
    if (fuzz::planted_at(std::accumulate(tensor.begin(), tensor.end(), uint64_t{0}))) fuzz::found_planted();
  }
}

}  // namespace krait
