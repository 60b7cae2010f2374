// The insides of a Tokenizer, shared with StreamDecoder.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "coordinator/tokenizer/added_tokens.h"
#include "coordinator/tokenizer/decoders.h"
#include "coordinator/tokenizer/model.h"
#include "coordinator/tokenizer/normalizers.h"
#include "coordinator/tokenizer/post_processors.h"
#include "coordinator/tokenizer/pre_tokenizers.h"
#include "coordinator/tokenizer/stretch_cache.h"
#include "coordinator/tokenizer/tokenizer.h"

namespace krait::tokenizer {

/// Scratches that no call uses at the moment. A call takes one, or makes one, and gives it back.
class ScratchPool final {
 public:
  std::unique_ptr<Scratch> take();
  void give_back(std::unique_ptr<Scratch> scratch);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> idle_;
};

struct Tokenizer::Parts final {
  AddedTokenMatcher raw_matcher;                // added tokens as they stand in the text
  AddedTokenMatcher normalized_matcher;         // and those that are looked for behind the normalizer
  std::unique_ptr<Normalizer> normalizer;       // may be null
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // may be null
  std::unique_ptr<Model> model;
  std::unique_ptr<PostProcessor> post_processor;  // may be null
  std::unique_ptr<Decoder> decoder;
  std::vector<std::string> tokens;  // by id, added ones too; empty where there is none
  std::vector<bool> special;        // by id
  std::unordered_map<std::string, int32_t> added_ids;
  mutable ScratchPool scratches;

  /// Appends the ids of a stretch. They depend on nothing but these parts and the key.
  Status encode_stretch(const StretchCache::Key& key, Scratch& scratch, std::vector<int32_t>& out) const;

  /// Text of a token as the decoder takes it; empty for an id without a token, and for a special one to be skipped.
  std::string_view decodable(int32_t id, bool skip_special) const {
    if (id < 0 || static_cast<size_t>(id) >= tokens.size()) return {};
    if (skip_special && special[static_cast<size_t>(id)]) return {};
    return tokens[static_cast<size_t>(id)];
  }
};

}  // namespace krait::tokenizer
