#include "coordinator/tokenizer/decode_stages.h"

#include "coordinator/tokenizer/byte_level.h"

namespace krait::tokenizer {

void JoinStage::push(std::string_view text, bool ends) {
  if (!inside_ && begun_) next_->push(" ", false);
  begun_ = true;
  inside_ = !ends;
  next_->push(text, ends);
}

void WholePieceStage::push(std::string_view text, bool ends) {
  if (ends && held_.empty()) {
    push_whole(text);
    return;
  }
  held_ += text;
  if (!ends) return;
  const std::string piece = std::move(held_);
  held_.clear();
  push_whole(piece);
}

void ByteLevelStage::push_whole(std::string_view piece) {
  ready_.clear();
  text_.push(bytes_of_byte_chars(piece), ready_);
  if (!ready_.empty()) next_->push(ready_, false);
}

void ByteLevelStage::finish() {
  ready_.clear();
  text_.finish(ready_);
  next_->push(ready_, true);
  next_->finish();
}

void ByteFallbackStage::push_whole(std::string_view piece) {
  if (const std::optional<char> byte = fallback_byte(piece)) {
    run_.push_back(*byte);
    return;
  }
  end_run();
  next_->push(piece, true);
}

void ByteFallbackStage::end_run() {
  if (run_.empty()) return;
  if (is_utf8(run_)) {
    next_->push(run_, true);
  } else {
    for (size_t i = 0; i < run_.size(); ++i)
      next_->push("\ufffd", true);
  }
  run_.clear();
}

void ByteFallbackStage::finish() {
  end_run();
  next_->finish();
}

void FuseStage::finish() {
  next_->push("", true);
  next_->finish();
}

void StripStage::push(std::string_view text, bool ends) {
  while (start_left_ > 0 && text.starts_with(content_)) {
    text.remove_prefix(content_.size());
    --start_left_;
  }
  if (!text.empty()) start_left_ = 0;
  held_ += text;
  // What can still be the end of the piece stays: the last `stop` copies of the character.
  size_t keep = held_.size();
  for (int64_t i = 0; i < stop_ && std::string_view(held_).substr(0, keep).ends_with(content_); ++i) {
    keep -= content_.size();
  }
  next_->push(std::string_view(held_).substr(0, keep), ends);
  held_.erase(0, keep);
  if (ends) {
    held_.clear();
    start_left_ = start_;
  }
}

void ReplaceStage::push_whole(std::string_view piece) {
  const Result<std::string> replaced = pattern_.replace(piece, content_, scratch_);
  // A pattern that gives up on a token's text leaves it as it is: there is nobody to tell in the middle of a stream.
  next_->push(replaced.ok() ? std::string_view(*replaced) : piece, true);
}

void MetaspaceStage::push(std::string_view text, bool ends) {
  const bool drop = first_ && config_.prepend != MetaspaceConfig::Prepend::kNever;
  next_->push(replace_marks(text, config_.replacement, drop ? "" : " "), ends);
  if (ends) first_ = false;
}

std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int byte = 0;
  for (const char c : token.substr(3, 2)) {
    int digit = 0;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else {
      return std::nullopt;
    }
    byte = byte * 16 + digit;
  }
  return static_cast<char>(byte);
}

std::string replace_marks(std::string_view text, std::string_view mark, std::string_view with) {
  std::string out;
  size_t at = 0;
  for (size_t found = text.find(mark); found != std::string_view::npos; found = text.find(mark, at)) {
    out += text.substr(at, found - at);
    out += with;
    at = found + mark.size();
  }
  out += text.substr(at);
  return out;
}

}  // namespace krait::tokenizer
