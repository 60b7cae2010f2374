// krait-random-models FOLDER SEEDS: for every family, models of odd sizes with what this engine makes of them,
// for test_transformers.py to compare. FOLDER/FAMILY-SEED/ gets config.json, the tensors,
// ids.bin (int32) and logits.bin (float32 [T][V]).
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/model/architecture.h"
#include "tests/support/cluster/engine_group.h"
#include "tests/support/random_model.h"

namespace krait::test {
namespace {

constexpr int64_t kTokens = 80;  // more than the 64 keys of a step of the softmax, and than a chunk of Mamba-2

template <class T>
void write(const std::string& path, std::span<const T> values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
}

void make(const std::string& folder, std::string_view architecture, uint64_t seed) {
  std::filesystem::create_directories(folder);
  const ModelConfig config = write_random_model(folder, architecture, seed).config;
  SplitMix64 random(seed);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < kTokens; ++i)
    ids.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(config.vocab_size))));
  EngineGroupOptions options;
  options.model_dir = folder;
  EngineGroup group(options);
  group.keep_logits();
  std::vector<float> logits;
  for (const auto& row : run_sequence(group, 0, ids, 33, 1, scored_greedily()).prompt_logits)
    logits.insert(logits.end(), row.begin(), row.end());
  write<int32_t>(folder + "/ids.bin", ids);
  write<float>(folder + "/logits.bin", logits);
}

}  // namespace
}  // namespace krait::test

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: krait-random-models FOLDER SEEDS\n");
    return 2;
  }
  for (const krait::Architecture* architecture : krait::all_architectures()) {
    if (architecture->name == "gguf") continue;  // transformers reads no such file
    for (int seed = 1; seed <= std::atoi(argv[2]); ++seed)
      krait::test::make(fmt::format("{}/{}-{}", argv[1], architecture->name, seed), architecture->name,
                        static_cast<uint64_t>(seed));
  }
  return 0;
}
