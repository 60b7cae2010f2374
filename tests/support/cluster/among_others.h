// One sequence in an EngineGroup whose other slots are busy with sequences that come and go.
#pragma once

#include "tests/support/cluster/engine_group.h"

namespace krait::test {

/// The sequence runs in slot 0, its prompt in chunks of random sizes; what the other slots do, chance decides.
SequenceResult run_among_others(const EngineGroupOptions& options, const std::vector<int32_t>& prompt,
                                uint32_t generate, const wire::SamplingParams& sampling);

}  // namespace krait::test
