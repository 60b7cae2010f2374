// Tokens of one sequence become text: whole characters only, nothing that is or may become a stop string.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "coordinator/requests/generation.h"
#include "coordinator/tokenizer/stop_strings.h"
#include "coordinator/tokenizer/stream_decoder.h"
#include "coordinator/tokenizer/tokenizer.h"

namespace krait::requests {

class SequenceOutput final {
 public:
  /// Without a tokenizer tokens have no text, and stop strings never match.
  SequenceOutput(std::shared_ptr<const tokenizer::Tokenizer> tokenizer, std::shared_ptr<const SharedSpec> spec);

  struct Piece final {
    std::string text;
    bool stopped = false;     // a stop string is complete: the sequence is over
    std::string stop_string;  // which one
  };

  /// Text that this token makes certain.
  Piece push(int32_t token);
  /// What was held back, when the sequence ends otherwise. A stop token has no text: do not push it.
  Piece flush();

  bool is_stop_token(int32_t token) const;

 private:
  Piece through_stops(const std::string& text);

  std::shared_ptr<const SharedSpec> spec_;
  std::optional<tokenizer::StreamDecoder> decoder_;
  std::optional<tokenizer::StopMatcher> stops_;
};

}  // namespace krait::requests
