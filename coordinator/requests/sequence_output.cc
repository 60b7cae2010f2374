#include "coordinator/requests/sequence_output.h"

#include <algorithm>
#include <utility>

namespace krait::requests {

SequenceOutput::SequenceOutput(std::shared_ptr<const tokenizer::Tokenizer> tokenizer, const SequenceSpec& spec)
    : stop_strings_(spec.stop_strings), stop_ids_(spec.sampling.stop_ids) {
  if (tokenizer == nullptr) return;
  decoder_.emplace(std::move(tokenizer), spec.skip_special_tokens);
  if (!stop_strings_.empty()) stops_.emplace(stop_strings_, spec.include_stop);
}

bool SequenceOutput::is_stop_token(int32_t token) const {
  return std::binary_search(stop_ids_.begin(), stop_ids_.end(), token);
}

SequenceOutput::Piece SequenceOutput::through_stops(const std::string& text) {
  if (!stops_) return {text, false, {}};
  auto piece = stops_->push(text);
  return {std::move(piece.text), piece.stopped, piece.stopped ? stop_strings_.at(piece.which) : std::string()};
}

SequenceOutput::Piece SequenceOutput::push(int32_t token) {
  if (!decoder_) return {};
  return through_stops(decoder_->push(token));
}

SequenceOutput::Piece SequenceOutput::flush() {
  if (!decoder_) return {};
  Piece piece = through_stops(decoder_->flush());
  if (!piece.stopped && stops_) piece.text += stops_->flush();
  return piece;
}

}  // namespace krait::requests
