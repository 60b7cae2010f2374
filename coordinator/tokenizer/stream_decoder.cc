#include "coordinator/tokenizer/stream_decoder.h"

#include <utility>

#include "coordinator/tokenizer/tokenizer_parts.h"

namespace krait::tokenizer {

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)),
      skip_special_tokens_(skip_special_tokens),
      chain_(std::make_unique<DecodeChain>(*tokenizer_->parts_->decoder)) {}

StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&& other) noexcept {
  // The chain refers to parts of the tokenizer, so it goes first.
  chain_ = std::move(other.chain_);
  tokenizer_ = std::move(other.tokenizer_);
  skip_special_tokens_ = other.skip_special_tokens_;
  return *this;
}

std::string StreamDecoder::push(int32_t id) {
  const std::string_view token = tokenizer_->parts_->decodable(id, skip_special_tokens_);
  if (!token.empty()) chain_->push(token);
  return chain_->take();
}

std::string StreamDecoder::flush() {
  chain_->finish();
  std::string text = chain_->take();
  chain_ = std::make_unique<DecodeChain>(*tokenizer_->parts_->decoder);
  return text;
}

}  // namespace krait::tokenizer
