#include "coordinator/tokenizer/normalizers.h"

#include <array>

#include "coordinator/tokenizer/byte_level.h"
#include "coordinator/tokenizer/pattern.h"
#include "coordinator/tokenizer/unicode.h"
#include "coordinator/tokenizer/utf8.h"

namespace krait::tokenizer {
namespace {

using NormalizerPtr = std::unique_ptr<Normalizer>;
using NormalizerResult = Result<NormalizerPtr>;

class NormalFormNormalizer final : public Normalizer {
 public:
  explicit NormalFormNormalizer(NormalForm form) : form_(form) {}

  template <NormalForm form>
  static NormalizerResult make(const Json&, const Where&) {
    return NormalizerPtr(new NormalFormNormalizer(form));
  }

  Status apply(std::string& text, RegexScratch&) const override {
    text = normal_form(text, form_);
    return {};
  }

 private:
  NormalForm form_;
};

class LowercaseNormalizer final : public Normalizer {
 public:
  static NormalizerResult make(const Json&, const Where&) { return NormalizerPtr(new LowercaseNormalizer()); }

  Status apply(std::string& text, RegexScratch&) const override {
    text = lower_case(text);
    return {};
  }
};

class ByteLevelNormalizer final : public Normalizer {
 public:
  static NormalizerResult make(const Json&, const Where&) { return NormalizerPtr(new ByteLevelNormalizer()); }

  Status apply(std::string& text, RegexScratch&) const override {
    std::string mapped;
    append_byte_chars(text, mapped);
    text = std::move(mapped);
    return {};
  }
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}

  static NormalizerResult make(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(std::string prefix, string_field(json, "prepend", where));
    return NormalizerPtr(new PrependNormalizer(std::move(prefix)));
  }

  Status apply(std::string& text, RegexScratch&) const override {
    if (!text.empty()) text.insert(0, prefix_);
    return {};
  }

 private:
  std::string prefix_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  static NormalizerResult make(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(Pattern pattern, Pattern::read(json, where));
    ASSIGN_OR_RETURN(std::string content, string_field(json, "content", where));
    return NormalizerPtr(new ReplaceNormalizer(std::move(pattern), std::move(content)));
  }

  Status apply(std::string& text, RegexScratch& scratch) const override {
    ASSIGN_OR_RETURN(text, pattern_.replace(text, content_, scratch));
    return {};
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class StripNormalizer final : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}

  static NormalizerResult make(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(const bool left, bool_field(json, "strip_left", true, where));
    ASSIGN_OR_RETURN(const bool right, bool_field(json, "strip_right", true, where));
    return NormalizerPtr(new StripNormalizer(left, right));
  }

  Status apply(std::string& text, RegexScratch&) const override {
    size_t end = text.size();
    while (right_ && end > 0) {
      size_t begin = end;
      if (!is_space(previous_code_point(text, begin))) break;
      end = begin;
    }
    text.resize(end);
    size_t begin = 0;
    while (left_ && begin < text.size()) {
      size_t behind = begin;
      if (!is_space(next_code_point(text, behind))) break;
      begin = behind;
    }
    text.erase(0, begin);
    return {};
  }

 private:
  bool left_;
  bool right_;
};

class SequenceNormalizer final : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<NormalizerPtr> parts) : parts_(std::move(parts)) {}

  static NormalizerResult make(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(auto parts, make_parts<Normalizer>(make_normalizer, json, "normalizers", where));
    return NormalizerPtr(new SequenceNormalizer(std::move(parts)));
  }

  Status apply(std::string& text, RegexScratch& scratch) const override {
    for (const NormalizerPtr& part : parts_)
      RETURN_IF_ERROR(part->apply(text, scratch));
    return {};
  }

 private:
  std::vector<NormalizerPtr> parts_;
};

constexpr std::array<PartMaker<Normalizer>, 10> kNormalizers{{
    {"NFC", NormalFormNormalizer::make<NormalForm::kNfc>},
    {"NFD", NormalFormNormalizer::make<NormalForm::kNfd>},
    {"NFKC", NormalFormNormalizer::make<NormalForm::kNfkc>},
    {"NFKD", NormalFormNormalizer::make<NormalForm::kNfkd>},
    {"Lowercase", LowercaseNormalizer::make},
    {"ByteLevel", ByteLevelNormalizer::make},
    {"Prepend", PrependNormalizer::make},
    {"Replace", ReplaceNormalizer::make},
    {"Strip", StripNormalizer::make},
    {"Sequence", SequenceNormalizer::make},
}};

}  // namespace

Result<NormalizerPtr> make_normalizer(const Json& json, const Where& where) {
  return make_part<Normalizer>(kNormalizers, json, where);
}

}  // namespace krait::tokenizer
