// The part of decode.cc that reads a group's plan of sums; for that file alone.
#pragma once

#include "common/base/limits.h"
#include "common/wire/cluster.capnp.h"
#include "common/wire/decode_checks.h"
#include "common/wire/messages.h"

namespace krait::wire {
using namespace decoding;  // NOLINT: its functions are words of this file

inline void get(schema::SumCodec::Reader from, SumCodec& to) {
  to.layer = in_range("layer", from.getLayer(), 0, limits::kMaxLayers - 1);
  to.operation = name("operation", from.getOperation());
  to.codec = name("codec", from.getCodec());
}

inline void get(schema::SizeCodec::Reader from, SizeCodec& to) {
  to.bytes = in_range("bytes of a sum", from.getBytes(), 1, limits::kMaxCollectiveMessageBytes);
  to.codec = name("codec", from.getCodec());
}

inline void get(schema::SumAlgorithm::Reader from, SumAlgorithm& to) {
  to.codec = name("codec", from.getCodec());
  to.bytes = in_range("bytes of a part", from.getBytes(), 1, limits::kMaxCollectiveMessageBytes);
  to.two_shot = from.getTwoShot();
  to.stage_bytes =
      in_range("stage_bytes", from.getStageBytes(), limits::kMinCollectiveStageBytes, limits::kMaxCollectiveStageBytes);
}

inline void get(schema::CollectivePlan::Reader from, CollectivePlan& to) {
  to.sums = structs<SumCodec>("sums", from.getSums(), limits::kMaxHiddenSums);
  to.codecs_by_size = structs<SizeCodec>("codecs_by_size", from.getCodecsBySize(), limits::kMaxSizeCodecs);
  to.algorithms = structs<SumAlgorithm>("algorithms", from.getAlgorithms(), limits::kMaxSumAlgorithms);
}

}  // namespace krait::wire
