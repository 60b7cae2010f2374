// What a group's sums cost over its links, by codec, size and algorithm, and the tables that follow from it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "shard_server/collectives/codec.h"

namespace krait::tools {

struct LinkOptions final {
  std::string transport = "shared_memory";  // a name in collectives.def
  int world = 2;
  bool may_spin = false;
  // Between hosts: this process is one rank. Else all ranks are threads of it, and rank is ignored.
  std::string address;                                 // where rank 0 listens
  std::shared_ptr<collectives::TcpListener> listener;  // there, of rank 0
  int rank = -1;
};

/// One sum, one way.
struct LinkFigure final {
  collectives::Codec codec = collectives::Codec::kFloat32;
  int64_t float_bytes = 0;  // of the sum as floats
  int64_t part_bytes = 0;   // of a rank's part as it travels
  bool two_shot = false;
  int64_t stage_bytes = 0;
  double seconds = 0;  // of a quiet one among many, on rank 0, packing and adding included
};

/// The sizes that are measured: as floats, ascending.
std::span<const int64_t> link_sizes();

/// Forms groups and times their sums: some seconds. All figures on rank 0, by codec, then size; nothing on others.
/// Errors are those of the communicators.
Result<std::vector<LinkFigure>> measure_links(const LinkOptions& options, const Clock& clock);

/// Of each codec and size the fastest algorithm; one that is hardly faster than the last size's is not worth a change.
/// What lies between two sizes is parted at their geometric mean.
std::vector<wire::SumAlgorithm> algorithms_from(std::span<const LinkFigure> figures);

/// Of each size the fastest codec among those of a small error, floats where packing hardly pays.
std::vector<wire::SizeCodec> codecs_by_size_from(std::span<const LinkFigure> figures);

/// The fastest figure of a codec and size, or null.
const LinkFigure* fastest(std::span<const LinkFigure> figures, collectives::Codec codec, int64_t float_bytes);

}  // namespace krait::tools
