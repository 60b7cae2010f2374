// "decoder": how the texts of tokens become one text. Each part is a stage that a text flows through, so that decoding
// a whole sequence and decoding a stream are the same code.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/tokenizer/json_part.h"

namespace krait::tokenizer {

/// Takes pieces (texts of tokens, to begin with) and hands pieces on. A piece may come in several calls, each of whole
/// characters; the last one says that it ends. Nothing is held back longer than the outcome is in doubt.
class DecodeStage {
 public:
  virtual ~DecodeStage() = default;

  virtual void push(std::string_view text, bool ends) = 0;

  /// There are no more pieces.
  virtual void finish() { next_->finish(); }

  void set_next(DecodeStage* next) { next_ = next; }

 protected:
  DecodeStage* next_ = nullptr;
};

/// A part as the file describes it: immutable, shared by all streams.
class Decoder {
 public:
  virtual ~Decoder() = default;

  /// Appends new stages of this part, which may refer to the part.
  virtual void append_stages(std::vector<std::unique_ptr<DecodeStage>>& stages) const = 0;

  /// What the part makes of one token in the middle of a text; bytes, perhaps not whole characters.
  virtual std::string token_bytes(std::string token) const = 0;
};

/// The decoder that `json` describes, by the table in decoders.cc; for null, tokens with spaces between them.
Result<std::unique_ptr<Decoder>> make_decoder(const Json* json, const Where& where);

/// The stages of one text on its way. `decoder` must outlive it.
class DecodeChain final {
 public:
  explicit DecodeChain(const Decoder& decoder);

  void push(std::string_view token) { stages_.front()->push(token, true); }
  void finish() { stages_.front()->finish(); }

  /// The text that came out since the last call.
  std::string take();

 private:
  std::unique_ptr<std::string> out_;
  std::vector<std::unique_ptr<DecodeStage>> stages_;
};

}  // namespace krait::tokenizer
