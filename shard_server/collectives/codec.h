// The codecs of codecs.def: what happens to a part of a sum on its way.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/quant/row_codec.h"
#include "shard_server/collectives/communicator.h"

namespace krait::collectives {

struct CodecEntry final {
  Codec codec = Codec::kFloat32;
  std::string_view name;
  std::optional<kernels::RowFormat> format;  // none: floats as they are
  bool rotated = false;
  double error = 0;  // of one rounding of Gaussian rows, relative
};

/// In the order of the enumeration.
std::span<const CodecEntry> all_codecs();
const CodecEntry& codec_entry(Codec codec);
/// For settings.
std::vector<std::string> codec_names();
/// kInvalidArgument, naming what there is, for an unknown name.
Result<Codec> find_codec(std::string_view name);

}  // namespace krait::collectives
