// Mamba-1 as Hugging Face publishes it (state-spaces/mamba-*-hf, MambaForCausalLM).
#include <array>

#include "common/model/architecture.h"
#include "common/model/mamba1_parts.h"

namespace krait {
namespace {

constexpr auto kModelTypes = std::to_array<std::string_view>({"mamba"});

}  // namespace

const Architecture kArchitecture_mamba{
    .name = "mamba", .model_types = kModelTypes, .read_config = read_mamba1_config, .make_plan = make_mamba1_plan};

}  // namespace krait
