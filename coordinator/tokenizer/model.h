// "model": words to token ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/tokenizer/json_part.h"
#include "coordinator/tokenizer/regex.h"
#include "coordinator/tokenizer/word_cache.h"

namespace krait::tokenizer {

/// What encoding writes to: one for each thread that encodes at the same time.
struct Scratch final {
  /// One stretch of a word while its symbols are merged; a list through the vector.
  struct Symbol final {
    int32_t id = 0;
    int32_t previous = -1;
    int32_t next = -1;
  };
  /// A merge that may be done. Ordered by rank, then place.
  struct Merge final {
    uint64_t order = 0;  // rank << 32 | place
    int32_t left = 0;
    int32_t right = 0;
    int32_t merged = 0;
  };

  RegexScratch regex;
  WordCache cache;
  std::vector<Symbol> symbols;
  std::vector<Merge> heap;
  std::vector<int32_t> word_ids;
};

class Model {
 public:
  virtual ~Model() = default;

  /// Appends the ids of one word, valid UTF-8.
  virtual void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const = 0;

  virtual std::optional<int32_t> token_to_id(std::string_view token) const = 0;

  /// The token of each id; empty for an id that has none.
  virtual const std::vector<std::string>& tokens() const = 0;
};

/// The model that `json` describes, by the table in model.cc.
Result<std::unique_ptr<Model>> make_model(const Json& json, const Where& where);

}  // namespace krait::tokenizer
