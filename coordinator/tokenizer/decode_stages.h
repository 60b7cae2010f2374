// The stages that decoders.cc puts together.
#pragma once

#include <optional>
#include <string>

#include "coordinator/tokenizer/decoders.h"
#include "coordinator/tokenizer/metaspace.h"
#include "coordinator/tokenizer/pattern.h"
#include "coordinator/tokenizer/utf8.h"

namespace krait::tokenizer {

/// The end of every chain.
class OutputStage final : public DecodeStage {
 public:
  explicit OutputStage(std::string& out) : out_(out) {}

  void push(std::string_view text, bool) override { out_ += text; }
  void finish() override {}

 private:
  std::string& out_;
};

/// Puts a space between pieces.
class JoinStage final : public DecodeStage {
 public:
  void push(std::string_view text, bool ends) override;

 private:
  bool begun_ = false;   // some piece came before
  bool inside_ = false;  // of a piece
};

/// A stage that needs each piece as a whole.
class WholePieceStage : public DecodeStage {
 public:
  void push(std::string_view text, bool ends) final;

 protected:
  virtual void push_whole(std::string_view piece) = 0;

 private:
  std::string held_;
};

/// Bytes of the byte alphabet; joins all pieces into one text.
class ByteLevelStage final : public WholePieceStage {
 public:
  void finish() override;

 private:
  void push_whole(std::string_view piece) override;

  LossyUtf8 text_;
  std::string ready_;
};

/// Joins runs of pieces like <0xE2>. A run that is not UTF-8 as a whole becomes one U+FFFD a byte, so that nothing of
/// it can be told before its end.
class ByteFallbackStage final : public WholePieceStage {
 public:
  void finish() override;

 private:
  void push_whole(std::string_view piece) override;
  void end_run();

  std::string run_;
};

/// Joins all pieces into one.
class FuseStage final : public DecodeStage {
 public:
  void push(std::string_view text, bool) override { next_->push(text, false); }
  void finish() override;
};

/// Drops up to `start` characters `content` from the beginning of each piece and up to `stop` from its end.
class StripStage final : public DecodeStage {
 public:
  StripStage(std::string_view content, int64_t start, int64_t stop)
      : content_(content), start_(start), stop_(stop), start_left_(start) {}

  void push(std::string_view text, bool ends) override;

 private:
  std::string_view content_;
  int64_t start_;
  int64_t stop_;
  int64_t start_left_;
  std::string held_;  // copies of content_ at the end of what came, which may be the end of the piece
};

class ReplaceStage final : public WholePieceStage {
 public:
  ReplaceStage(const Pattern& pattern, std::string_view content) : pattern_(pattern), content_(content) {}

 private:
  void push_whole(std::string_view piece) override;

  const Pattern& pattern_;
  std::string_view content_;
  RegexScratch scratch_;
};

/// Marks become spaces; in the first piece they vanish if the encoder may have put one there.
class MetaspaceStage final : public DecodeStage {
 public:
  explicit MetaspaceStage(const MetaspaceConfig& config) : config_(config) {}

  void push(std::string_view text, bool ends) override;

 private:
  const MetaspaceConfig& config_;
  bool first_ = true;
};

/// The byte that a token like <0x0A> stands for.
std::optional<char> fallback_byte(std::string_view token);

/// `text` with every mark replaced.
std::string replace_marks(std::string_view text, std::string_view mark, std::string_view with);

}  // namespace krait::tokenizer
