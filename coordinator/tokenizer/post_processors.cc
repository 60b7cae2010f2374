#include "coordinator/tokenizer/post_processors.h"

#include <array>

namespace krait::tokenizer {
namespace {

using PostProcessorPtr = std::unique_ptr<PostProcessor>;
using PostProcessorResult = Result<PostProcessorPtr>;

/// ByteLevel only moves offsets, which nobody asks for here.
class ByteLevelPostProcessor final : public PostProcessor {
 public:
  static PostProcessorResult make(const Json&, const Where&) { return PostProcessorPtr(new ByteLevelPostProcessor()); }

  void apply(std::vector<int32_t>&) const override {}
};

class TemplatePostProcessor final : public PostProcessor {
 public:
  TemplatePostProcessor(std::vector<int32_t> before, std::vector<int32_t> behind)
      : before_(std::move(before)), behind_(std::move(behind)) {}

  static PostProcessorResult make(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(const Json* single, field(json, "single", where));
    const Where here = where.child("single");
    if (!single->is_array()) return corrupt(here, "must be an array");
    if (single->size() > static_cast<size_t>(limits::kMaxTokenizerParts)) return corrupt(here, "too many pieces");
    std::vector<int32_t> before;
    std::vector<int32_t> behind;
    int sequences = 0;
    for (size_t i = 0; i < single->size(); ++i) {
      const Json& piece = (*single)[i];
      if (const Json* sequence = find_field(piece, "Sequence")) {
        ASSIGN_OR_RETURN(const std::string id, string_field(*sequence, "id", here.child(i)));
        if (id != "A") return corrupt(here.child(i), "a template for one text can only have sequence A");
        ++sequences;
        continue;
      }
      ASSIGN_OR_RETURN(const Json* special, field(piece, "SpecialToken", here.child(i)));
      ASSIGN_OR_RETURN(const std::string name, string_field(*special, "id", here.child(i)));
      RETURN_IF_ERROR(append_special(json, name, where, sequences == 0 ? before : behind));
    }
    if (sequences != 1) return unsupported(here, "must have sequence A once");
    return PostProcessorPtr(new TemplatePostProcessor(std::move(before), std::move(behind)));
  }

  void apply(std::vector<int32_t>& ids) const override {
    ids.insert(ids.begin(), before_.begin(), before_.end());
    ids.insert(ids.end(), behind_.begin(), behind_.end());
  }

 private:
  static Status append_special(const Json& json, const std::string& name, const Where& where,
                               std::vector<int32_t>& out) {
    ASSIGN_OR_RETURN(const Json* table, field(json, "special_tokens", where));
    const Where here = where.child("special_tokens").child(name.substr(0, 80));
    ASSIGN_OR_RETURN(const Json* entry, field(*table, name.c_str(), where.child("special_tokens")));
    ASSIGN_OR_RETURN(const Json* ids, field(*entry, "ids", here));
    if (!ids->is_array()) return corrupt(here.child("ids"), "must be an array");
    if (ids->size() > static_cast<size_t>(limits::kMaxTokenizerParts)) return corrupt(here.child("ids"), "too many");
    for (const Json& id : *ids) {
      ASSIGN_OR_RETURN(const int32_t number, to_token_id(id, here.child("ids")));
      out.push_back(number);
    }
    return {};
  }

  std::vector<int32_t> before_;
  std::vector<int32_t> behind_;
};

class SequencePostProcessor final : public PostProcessor {
 public:
  explicit SequencePostProcessor(std::vector<PostProcessorPtr> parts) : parts_(std::move(parts)) {}

  static PostProcessorResult make(const Json& json, const Where& where) {
    ASSIGN_OR_RETURN(auto parts, make_parts<PostProcessor>(make_post_processor, json, "processors", where));
    return PostProcessorPtr(new SequencePostProcessor(std::move(parts)));
  }

  void apply(std::vector<int32_t>& ids) const override {
    for (const PostProcessorPtr& part : parts_)
      part->apply(ids);
  }

 private:
  std::vector<PostProcessorPtr> parts_;
};

constexpr std::array<PartMaker<PostProcessor>, 3> kPostProcessors{{
    {"ByteLevel", ByteLevelPostProcessor::make},
    {"TemplateProcessing", TemplatePostProcessor::make},
    {"Sequence", SequencePostProcessor::make},
}};

}  // namespace

Result<PostProcessorPtr> make_post_processor(const Json& json, const Where& where) {
  return make_part<PostProcessor>(kPostProcessors, json, where);
}

}  // namespace krait::tokenizer
