// Byte-pair encoding: the symbols of a word are merged, pair by pair, in the order in which the merges were learnt.
#pragma once

#include "coordinator/tokenizer/model.h"

namespace krait::tokenizer {

/// Reads vocab, merges, unk_token, fuse_unk, byte_fallback, ignore_merges. A dropout or an affix is refused.
Result<std::unique_ptr<Model>> make_bpe(const Json& json, const Where& where);

}  // namespace krait::tokenizer
