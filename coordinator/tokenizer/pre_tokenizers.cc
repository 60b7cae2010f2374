#include "coordinator/tokenizer/pre_tokenizers.h"

#include <array>

#include "coordinator/tokenizer/byte_level.h"
#include "coordinator/tokenizer/metaspace.h"
#include "coordinator/tokenizer/split.h"
#include "coordinator/tokenizer/unicode.h"
#include "coordinator/tokenizer/utf8.h"

namespace krait::tokenizer {
namespace {

using PreTokenizerPtr = std::unique_ptr<PreTokenizer>;
using PreTokenizerResult = Result<PreTokenizerPtr>;

Status check_size(const Pieces& pieces) {
  if (pieces.text.size() <= static_cast<size_t>(limits::kMaxNormalizedBytes)) return {};
  return Error{Errc::kTooLarge, "the text grows too large when it is cut into words", ""};
}

class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool prefix_space, bool cut) : prefix_space_(prefix_space), cut_(cut) {}

  static PreTokenizerResult make(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(const bool prefix_space, bool_field(json, "add_prefix_space", true, where));
    ASSIGN_OR_RETURN(const bool cut, bool_field(json, "use_regex", true, where));
    return PreTokenizerPtr(new ByteLevelPreTokenizer(prefix_space, cut));
  }

  Status apply(Pieces& pieces, RegexScratch&) const override {
    Pieces out{.at_start = pieces.at_start};
    out.text.reserve(pieces.text.size() + pieces.text.size() / 2);
    out.spans.reserve(pieces.text.size() / 4);
    for (const Pieces::Span& span : pieces.spans) {
      if (prefix_space_ && pieces.text[span.begin] != ' ') {
        append_words(' ' + std::string(pieces.view(span)), out);
      } else {
        append_words(pieces.view(span), out);
      }
      RETURN_IF_ERROR(check_size(out));
    }
    pieces = std::move(out);
    return {};
  }

 private:
  void append_words(std::string_view text, Pieces& out) const {
    for (size_t at = 0; at < text.size();) {
      const size_t end = cut_ ? gpt2_word_end(text, at) : text.size();
      const size_t begin = out.text.size();
      append_byte_chars(text.substr(at, end - at), out.text);
      out.spans.push_back({begin, out.text.size()});
      at = end;
    }
  }

  bool prefix_space_;
  bool cut_;
};

class SplitPreTokenizer final : public PreTokenizer {
 public:
  SplitPreTokenizer(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  static PreTokenizerResult make(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(Pattern pattern, Pattern::read(json, where));
    ASSIGN_OR_RETURN(const SplitBehavior behavior, split_behavior_field(json, SplitBehavior::kIsolated, where));
    ASSIGN_OR_RETURN(const bool invert, bool_field(json, "invert", false, where));
    return PreTokenizerPtr(new SplitPreTokenizer(std::move(pattern), behavior, invert));
  }

  Status apply(Pieces& pieces, RegexScratch& scratch) const override {
    std::vector<Pieces::Span> spans;
    std::vector<Stretch> stretches;
    for (const Pieces::Span& span : pieces.spans) {
      stretches.clear();
      RETURN_IF_ERROR(pattern_.cover(pieces.view(span), scratch, stretches));
      if (invert_) {
        for (Stretch& stretch : stretches)
          stretch.match = !stretch.match;
      }
      append_split(stretches, behavior_, span.begin, spans);
    }
    pieces.spans = std::move(spans);
    return {};
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

/// Cuts at the characters of one kind.
class CharSplitPreTokenizer final : public PreTokenizer {
 public:
  CharSplitPreTokenizer(bool (*is_match)(char32_t), SplitBehavior behavior)
      : is_match_(is_match), behavior_(behavior) {}

  static PreTokenizerResult make_digits(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(const bool each, bool_field(json, "individual_digits", false, where));
    return PreTokenizerPtr(
        new CharSplitPreTokenizer(is_digit, each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
  }

  static PreTokenizerResult make_punctuation(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(const SplitBehavior behavior, split_behavior_field(json, SplitBehavior::kIsolated, where));
    return PreTokenizerPtr(new CharSplitPreTokenizer(is_punctuation, behavior));
  }

  static PreTokenizerResult make_whitespace_split(const Json&, const Where&) {
    return PreTokenizerPtr(new CharSplitPreTokenizer(is_space, SplitBehavior::kRemoved));
  }

  Status apply(Pieces& pieces, RegexScratch&) const override {
    std::vector<Pieces::Span> spans;
    std::vector<Stretch> stretches;
    for (const Pieces::Span& span : pieces.spans) {
      stretches.clear();
      const std::string_view text = pieces.view(span);
      for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        const bool match = is_match_(next_code_point(text, at));
        if (!match && !stretches.empty() && !stretches.back().match) {
          stretches.back().end = at;
        } else {
          stretches.push_back({begin, at, match});
        }
      }
      append_split(stretches, behavior_, span.begin, spans);
    }
    pieces.spans = std::move(spans);
    return {};
  }

 private:
  bool (*is_match_)(char32_t);
  SplitBehavior behavior_;
};

/// Keeps runs of word characters and runs of what is neither word nor space: \w+|[^\w\s]+
class WhitespacePreTokenizer final : public PreTokenizer {
 public:
  static PreTokenizerResult make(const Json&, const Where&) { return PreTokenizerPtr(new WhitespacePreTokenizer()); }

  Status apply(Pieces& pieces, RegexScratch&) const override {
    enum class Kind : uint8_t { kSpace, kWord, kSign };
    std::vector<Pieces::Span> spans;
    for (const Pieces::Span& span : pieces.spans) {
      Kind run = Kind::kSpace;
      const std::string_view text = pieces.view(span);
      for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        const char32_t c = next_code_point(text, at);
        const Kind kind = is_word_char(c) ? Kind::kWord : is_space(c) ? Kind::kSpace : Kind::kSign;
        if (kind != Kind::kSpace && kind == run) {
          spans.back().end = span.begin + at;
        } else if (kind != Kind::kSpace) {
          spans.push_back({span.begin + begin, span.begin + at});
        }
        run = kind;
      }
    }
    pieces.spans = std::move(spans);
    return {};
  }
};

class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  MetaspacePreTokenizer(MetaspaceConfig config, bool cut) : config_(std::move(config)), cut_(cut) {}

  static PreTokenizerResult make(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(MetaspaceConfig config, MetaspaceConfig::read(json, where));
    ASSIGN_OR_RETURN(const bool cut, bool_field(json, "split", true, where));
    return PreTokenizerPtr(new MetaspacePreTokenizer(std::move(config), cut));
  }

  Status apply(Pieces& pieces, RegexScratch&) const override {
    const std::string& mark = config_.replacement;
    Pieces out{.at_start = pieces.at_start};
    for (const Pieces::Span& span : pieces.spans) {
      const std::string_view text = pieces.view(span);
      size_t begin = out.text.size();
      const bool first = pieces.at_start && span.begin == 0;
      const bool prepend = config_.prepend == MetaspaceConfig::Prepend::kAlways ||
                           (config_.prepend == MetaspaceConfig::Prepend::kFirst && first);
      if (prepend && text[0] != ' ' && !text.starts_with(mark)) out.text += mark;
      for (size_t at = 0; at < text.size();) {
        const std::string_view c = text.substr(at, utf8_length(text[at]));
        at += c.size();
        const bool is_mark = c == " " || c == mark;
        // A mark begins a piece, each mark of a run its own.
        if (is_mark && cut_ && out.text.size() > begin) {
          out.spans.push_back({begin, out.text.size()});
          begin = out.text.size();
        }
        out.text += is_mark ? std::string_view(mark) : c;
      }
      out.spans.push_back({begin, out.text.size()});
      RETURN_IF_ERROR(check_size(out));
    }
    pieces = std::move(out);
    return {};
  }

 private:
  MetaspaceConfig config_;
  bool cut_;
};

class SequencePreTokenizer final : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<PreTokenizerPtr> parts) : parts_(std::move(parts)) {}

  static PreTokenizerResult make(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(auto parts, make_parts<PreTokenizer>(make_pre_tokenizer, json, "pretokenizers", where));
    return PreTokenizerPtr(new SequencePreTokenizer(std::move(parts)));
  }

  Status apply(Pieces& pieces, RegexScratch& scratch) const override {
    for (const PreTokenizerPtr& part : parts_)
      RETURN_IF_ERROR(part->apply(pieces, scratch));
    return {};
  }

 private:
  std::vector<PreTokenizerPtr> parts_;
};

constexpr std::array<PartMaker<PreTokenizer>, 8> kPreTokenizers{{
    {"ByteLevel", ByteLevelPreTokenizer::make},
    {"Split", SplitPreTokenizer::make},
    {"Digits", CharSplitPreTokenizer::make_digits},
    {"Punctuation", CharSplitPreTokenizer::make_punctuation},
    {"Whitespace", WhitespacePreTokenizer::make},
    {"WhitespaceSplit", CharSplitPreTokenizer::make_whitespace_split},
    {"Metaspace", MetaspacePreTokenizer::make},
    {"Sequence", SequencePreTokenizer::make},
}};

}  // namespace

Result<PreTokenizerPtr> make_pre_tokenizer(const Json& json, const Where& where) {
  return make_part<PreTokenizer>(kPreTokenizers, json, where);
}

}  // namespace krait::tokenizer
