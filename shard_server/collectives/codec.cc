#include "shard_server/collectives/codec.h"

#include <array>

#include "common/base/check.h"

namespace krait::collectives {
namespace {

constexpr std::nullopt_t kNoFormat = std::nullopt;

constexpr auto kCodecs = std::to_array<CodecEntry>({
#define CODEC(constant, name, format, rotated, error) {Codec::constant, name, format, rotated, error},
#include "shard_server/collectives/codecs.def"
#undef CODEC
});

}  // namespace

std::span<const CodecEntry> all_codecs() {
  return kCodecs;
}

const CodecEntry& codec_entry(Codec codec) {
  CHECK_LT(static_cast<size_t>(codec), kCodecs.size());
  return kCodecs[static_cast<size_t>(codec)];
}

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  names.reserve(kCodecs.size());
  for (const CodecEntry& entry : kCodecs)
    names.emplace_back(entry.name);
  return names;
}

Result<Codec> find_codec(std::string_view name) {
  std::string known;
  for (const CodecEntry& entry : kCodecs) {
    if (entry.name == name) return entry.codec;
    known += known.empty() ? "" : ", ";
    known += entry.name;
  }
  return Error{Errc::kInvalidArgument, fmt::format("no codec of sums is named \"{}\"; there are: {}", name, known),
               "codec"};
}

}  // namespace krait::collectives
