// Messages of every kind with random contents, all of them within the limits: for round trips, fuzzers and simulations.
#pragma once

#include "common/base/rng.h"
#include "common/wire/messages.h"

namespace krait::test {

/// The number of kinds, to go through all of them.
inline constexpr size_t kMessageKinds = std::variant_size_v<wire::Message>;

/// A message of the kind at index `kind` of wire::Message. Lists have up to `max_list` elements (fewer where a limit
/// says so) and are often empty; numbers are often at the ends of what is allowed. No field of any struct is left out:
/// the structs are taken apart by structured bindings, so a new field does not compile here until it is filled.
wire::Message random_message(SplitMix64& random, size_t kind, size_t max_list = 8);

}  // namespace krait::test
