#include "coordinator/tokenizer/pattern.h"

#include "coordinator/tokenizer/utf8.h"

namespace krait::tokenizer {

Result<Pattern> Pattern::read(const Json& part, const Where& where) {
  ASSIGN_OR_RETURN(const Json* json, field(part, "pattern", where));
  const Where here = where.child("pattern");
  Pattern pattern;
  if (find_field(*json, "String") != nullptr) {
    ASSIGN_OR_RETURN(pattern.literal_, string_field(*json, "String", here));
    if (pattern.literal_.empty()) return corrupt(here.child("String"), "must not be empty");
    return pattern;
  }
  ASSIGN_OR_RETURN(const std::string regex, string_field(*json, "Regex", here));
  ASSIGN_OR_RETURN(pattern.regex_, Regex::compile(regex, "tokenizer.json: " + here.path));
  return pattern;
}

Status Pattern::cover(std::string_view text, RegexScratch& scratch, std::vector<Stretch>& out) const {
  size_t covered = 0;
  size_t from = 0;
  while (from <= text.size()) {
    size_t begin = 0;
    size_t end = 0;
    if (regex_) {
      ASSIGN_OR_RETURN(const Regex::Match match, regex_->find(text, from, scratch));
      if (!match.found) break;
      begin = match.begin;
      end = match.end;
    } else {
      begin = text.find(literal_, from);
      if (begin == std::string_view::npos) break;
      end = begin + literal_.size();
    }
    if (begin > covered) out.push_back({covered, begin, false});
    // An empty match right behind another match is none; elsewhere it counts, and the search goes on one character
    // later.
    if (end > begin || begin > covered || begin == 0) out.push_back({begin, end, true});
    covered = end;
    from = end > begin ? end : end + (end < text.size() ? utf8_length(text[end]) : 1);
  }
  if (covered < text.size()) out.push_back({covered, text.size(), false});
  return {};
}

Result<std::string> Pattern::replace(std::string_view text, std::string_view with, RegexScratch& scratch) const {
  std::vector<Stretch> stretches;
  RETURN_IF_ERROR(cover(text, scratch, stretches));
  std::string out;
  out.reserve(text.size());
  for (const Stretch& stretch : stretches) {
    out += stretch.match ? with : text.substr(stretch.begin, stretch.end - stretch.begin);
    if (out.size() > static_cast<size_t>(limits::kMaxNormalizedBytes)) {
      return Error{Errc::kTooLarge, "the text grows too large when it is normalized", ""};
    }
  }
  return out;
}

}  // namespace krait::tokenizer
