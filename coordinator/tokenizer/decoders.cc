#include "coordinator/tokenizer/decoders.h"

#include <array>

#include "coordinator/tokenizer/byte_level.h"
#include "coordinator/tokenizer/decode_stages.h"

namespace krait::tokenizer {
namespace {

using DecoderPtr = std::unique_ptr<Decoder>;
using DecoderResult = Result<DecoderPtr>;
using Stages = std::vector<std::unique_ptr<DecodeStage>>;

DecoderResult make_decoder_part(const Json& json, const Where& where);

class JoinDecoder final : public Decoder {
 public:
  void append_stages(Stages& stages) const override { stages.push_back(std::make_unique<JoinStage>()); }
  std::string token_bytes(std::string token) const override { return token; }
};

class ByteLevelDecoder final : public Decoder {
 public:
  static DecoderResult make(const Json&, const Where&) { return DecoderPtr(new ByteLevelDecoder()); }

  void append_stages(Stages& stages) const override { stages.push_back(std::make_unique<ByteLevelStage>()); }
  std::string token_bytes(std::string token) const override { return bytes_of_byte_chars(token); }
};

class ByteFallbackDecoder final : public Decoder {
 public:
  static DecoderResult make(const Json&, const Where&) { return DecoderPtr(new ByteFallbackDecoder()); }

  void append_stages(Stages& stages) const override { stages.push_back(std::make_unique<ByteFallbackStage>()); }
  std::string token_bytes(std::string token) const override {
    const std::optional<char> byte = fallback_byte(token);
    return byte ? std::string(1, *byte) : token;
  }
};

class FuseDecoder final : public Decoder {
 public:
  static DecoderResult make(const Json&, const Where&) { return DecoderPtr(new FuseDecoder()); }

  void append_stages(Stages& stages) const override { stages.push_back(std::make_unique<FuseStage>()); }
  std::string token_bytes(std::string token) const override { return token; }
};

class StripDecoder final : public Decoder {
 public:
  StripDecoder(std::string content, int64_t start, int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}

  static DecoderResult make(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(std::string content, string_field(json, "content", where));
    if (content.empty() || utf8_length(content[0]) != content.size()) {
      return corrupt(where.child("content"), "must be one character");
    }
    ASSIGN_OR_RETURN(const int64_t start, int_field(json, "start", 0, limits::kMaxTokenBytes, where));
    ASSIGN_OR_RETURN(const int64_t stop, int_field(json, "stop", 0, limits::kMaxTokenBytes, where));
    return DecoderPtr(new StripDecoder(std::move(content), start, stop));
  }

  void append_stages(Stages& stages) const override {
    stages.push_back(std::make_unique<StripStage>(content_, start_, stop_));
  }
  std::string token_bytes(std::string token) const override { return token; }

 private:
  std::string content_;
  int64_t start_;
  int64_t stop_;
};

class ReplaceDecoder final : public Decoder {
 public:
  ReplaceDecoder(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}

  static DecoderResult make(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(Pattern pattern, Pattern::read(json, where));
    ASSIGN_OR_RETURN(std::string content, string_field(json, "content", where));
    return DecoderPtr(new ReplaceDecoder(std::move(pattern), std::move(content)));
  }

  void append_stages(Stages& stages) const override {
    stages.push_back(std::make_unique<ReplaceStage>(pattern_, content_));
  }
  std::string token_bytes(std::string token) const override {
    if (!is_utf8(token)) return token;  // a single byte of a character
    RegexScratch scratch;
    Result<std::string> replaced = pattern_.replace(token, content_, scratch);
    return replaced.ok() ? std::move(*replaced) : token;
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class MetaspaceDecoder final : public Decoder {
 public:
  explicit MetaspaceDecoder(MetaspaceConfig config) : config_(std::move(config)) {}

  static DecoderResult make(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(MetaspaceConfig config, MetaspaceConfig::read(json, where));
    return DecoderPtr(new MetaspaceDecoder(std::move(config)));
  }

  void append_stages(Stages& stages) const override { stages.push_back(std::make_unique<MetaspaceStage>(config_)); }
  std::string token_bytes(std::string token) const override { return replace_marks(token, config_.replacement, " "); }

 private:
  MetaspaceConfig config_;
};

class SequenceDecoder final : public Decoder {
 public:
  explicit SequenceDecoder(std::vector<DecoderPtr> parts) : parts_(std::move(parts)) {}

  static DecoderResult make(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(auto parts, make_parts<Decoder>(make_decoder_part, json, "decoders", where));
    return DecoderPtr(new SequenceDecoder(std::move(parts)));
  }

  void append_stages(Stages& stages) const override {
    for (const DecoderPtr& part : parts_)
      part->append_stages(stages);
  }
  std::string token_bytes(std::string token) const override {
    for (const DecoderPtr& part : parts_)
      token = part->token_bytes(std::move(token));
    return token;
  }

 private:
  std::vector<DecoderPtr> parts_;
};

constexpr std::array<PartMaker<Decoder>, 7> kDecoders{{
    {"ByteLevel", ByteLevelDecoder::make},
    {"ByteFallback", ByteFallbackDecoder::make},
    {"Fuse", FuseDecoder::make},
    {"Strip", StripDecoder::make},
    {"Replace", ReplaceDecoder::make},
    {"Metaspace", MetaspaceDecoder::make},
    {"Sequence", SequenceDecoder::make},
}};

DecoderResult make_decoder_part(const Json& json, const Where& where) {
  return make_part<Decoder>(kDecoders, json, where);
}

}  // namespace

Result<DecoderPtr> make_decoder(const Json* json, const Where& where) {
  if (json == nullptr) return DecoderPtr(new JoinDecoder());
  return make_decoder_part(*json, where);
}

DecodeChain::DecodeChain(const Decoder& decoder) : out_(std::make_unique<std::string>()) {
  decoder.append_stages(stages_);
  stages_.push_back(std::make_unique<OutputStage>(*out_));
  for (size_t i = 0; i + 1 < stages_.size(); ++i)
    stages_[i]->set_next(stages_[i + 1].get());
}

std::string DecodeChain::take() {
  std::string text = std::move(*out_);
  out_->clear();
  return text;
}

}  // namespace krait::tokenizer
