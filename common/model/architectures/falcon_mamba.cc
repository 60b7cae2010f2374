// Falcon-Mamba (tiiuae/falcon-mamba-7b, Falcon3-Mamba; FalconMambaForCausalLM): Mamba-1 whose dt, B and C are normed.
#include <array>

#include "common/model/architecture.h"
#include "common/model/mamba1_parts.h"

namespace krait {
namespace {

constexpr auto kModelTypes = std::to_array<std::string_view>({"falcon_mamba"});

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_mamba1_config(reader, config);
  config.mixer.dt_b_c_norm_eps = static_cast<float>(reader.number("mixer_rms_eps", 0, 1, 1e-6));
}

}  // namespace

const Architecture kArchitecture_falcon_mamba{
    .name = "falcon_mamba", .model_types = kModelTypes, .read_config = read_config, .make_plan = make_mamba1_plan};

}  // namespace krait
