#include "coordinator/tokenizer/added_tokens.h"

#include <algorithm>

#include "coordinator/tokenizer/unicode.h"
#include "coordinator/tokenizer/utf8.h"

namespace krait::tokenizer {
namespace {

/// Whether [begin, end) touches one of some ascending ranges.
bool touches(std::span<const ByteRange> ranges, size_t begin, size_t end) {
  const auto range =
      std::upper_bound(ranges.begin(), ranges.end(), begin, [](size_t at, const ByteRange& r) { return at < r.end; });
  return range != ranges.end() && range->begin < end;
}

uint64_t edge_key(int32_t node, char byte) {
  return static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte);
}

Result<AddedToken> read_added_token(const Json& json, const Where& where) {
  AddedToken token;
  ASSIGN_OR_RETURN(token.content, string_field(json, "content", where));
  if (token.content.empty()) return corrupt(where.child("content"), "is empty: the token would be found anywhere");
  if (token.content.size() > static_cast<size_t>(limits::kMaxTokenBytes)) {
    return corrupt(where.child("content"), "is too long");
  }
  ASSIGN_OR_RETURN(const Json* id, field(json, "id", where));
  ASSIGN_OR_RETURN(token.id, to_token_id(*id, where.child("id")));
  ASSIGN_OR_RETURN(token.special, bool_field(json, "special", false, where));
  ASSIGN_OR_RETURN(token.normalized, bool_field(json, "normalized", !token.special, where));
  ASSIGN_OR_RETURN(token.single_word, bool_field(json, "single_word", false, where));
  ASSIGN_OR_RETURN(token.lstrip, bool_field(json, "lstrip", false, where));
  ASSIGN_OR_RETURN(token.rstrip, bool_field(json, "rstrip", false, where));
  return token;
}

}  // namespace

Result<std::vector<AddedToken>> read_added_tokens(const Json& file) {
  std::vector<AddedToken> tokens;
  const Where where{"added_tokens", 0};
  const Json* list = find_field(file, "added_tokens");
  if (list == nullptr) return tokens;
  if (!list->is_array()) return corrupt(where, "must be an array");
  if (list->size() > static_cast<size_t>(limits::kMaxVocab)) return corrupt(where, "too many tokens");
  for (size_t i = 0; i < list->size(); ++i) {
    ASSIGN_OR_RETURN(AddedToken token, read_added_token((*list)[i], where.child(i)));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

void AddedTokenMatcher::add(const AddedToken& token, std::string_view as_seen) {
  if (as_seen.empty()) return;
  int32_t node = 0;
  for (const char byte : as_seen) {
    const int32_t* next = edges_.find(edge_key(node, byte));
    if (next != nullptr) {
      node = *next;
      continue;
    }
    const auto made = static_cast<int32_t>(nodes_.size());
    nodes_.emplace_back();
    edges_.set(edge_key(node, byte), made);
    node = made;
  }
  // Of two tokens that look the same the first stands.
  if (nodes_[static_cast<size_t>(node)].token >= 0) return;
  nodes_[static_cast<size_t>(node)].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
  begins_[static_cast<uint8_t>(as_seen[0])] = true;
}

AddedTokenMatcher::Found AddedTokenMatcher::longest_at(std::string_view text, size_t begin,
                                                       std::span<const ByteRange> untrusted) const {
  Found found;
  int32_t node = 0;
  for (size_t at = begin; at < text.size(); ++at) {
    const int32_t* next = edges_.find(edge_key(node, text[at]));
    if (next == nullptr) break;
    node = *next;
    const int32_t token = nodes_[static_cast<size_t>(node)].token;
    if (token < 0) continue;
    const bool hidden = tokens_[static_cast<size_t>(token)].special && touches(untrusted, begin, at + 1);
    if (!hidden) found = {token, at + 1};
  }
  return found;
}

bool AddedTokenMatcher::stands_alone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0) {
    size_t before = begin;
    if (is_word_char(previous_code_point(text, before))) return false;
  }
  return end == text.size() || !is_word_char(next_code_point(text, end));
}

void AddedTokenMatcher::split(std::string_view text, bool parse_special, std::span<const ByteRange> untrusted,
                              std::vector<Segment>& out) const {
  size_t covered = 0;
  size_t at = 0;
  size_t spaces_end = 0;  // of those behind the last token that took such: a token of spaces is found among them again
  while (!tokens_.empty() && at < text.size()) {
    if (!begins_[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    const Found found = longest_at(text, at, untrusted);
    // A hidden one is passed over by one byte only: the author's own token may begin within it.
    if (found.token < 0) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = found.end;
    // The search goes on behind what was found, also where it does not count: nothing is found inside it.
    at = found.end;
    const AddedToken& token = tokens_[static_cast<size_t>(found.token)];
    if (token.special && !parse_special) continue;
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    if (token.lstrip) {
      size_t before = begin;
      while (begin > covered && is_space(previous_code_point(text, before)))
        begin = before;
      begin = std::max(begin, covered);
    }
    if (token.rstrip) {
      end = std::max(end, spaces_end);
      size_t behind = end;
      while (end < text.size() && is_space(next_code_point(text, behind)))
        end = behind;
      spaces_end = end;
    }
    if (begin > covered) out.push_back({covered, begin, -1});
    out.push_back({begin, end, token.id});
    covered = end;
  }
  if (covered < text.size()) out.push_back({covered, text.size(), -1});
}

}  // namespace krait::tokenizer
