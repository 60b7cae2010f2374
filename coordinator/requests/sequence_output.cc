#include "coordinator/requests/sequence_output.h"

#include <algorithm>
#include <utility>

namespace krait::requests {

SequenceOutput::SequenceOutput(std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                               std::shared_ptr<const SharedSpec> spec)
    : spec_(std::move(spec)) {
  if (tokenizer == nullptr) return;
  decoder_.emplace(std::move(tokenizer), spec_->skip_special_tokens);
  if (spec_->stop != nullptr) stops_.emplace(spec_->stop, spec_->include_stop);
}

bool SequenceOutput::is_stop_token(int32_t token) const {
  const auto& stop_ids = spec_->sampling.stop_ids;
  return std::binary_search(stop_ids.begin(), stop_ids.end(), token);
}

SequenceOutput::Piece SequenceOutput::through_stops(const std::string& text) {
  if (!stops_) return {text, false, {}};
  auto piece = stops_->push(text);
  return {std::move(piece.text), piece.stopped, piece.stopped ? spec_->stop->strings().at(piece.which) : std::string()};
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
