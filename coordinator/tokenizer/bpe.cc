#include "coordinator/tokenizer/bpe.h"

#include <algorithm>
#include <unordered_map>

#include "coordinator/tokenizer/flat_map.h"
#include "coordinator/tokenizer/utf8.h"

namespace krait::tokenizer {
namespace {

constexpr std::string_view kMark = "\u2581";  // stands for a space in vocabularies made by SentencePiece

struct MergeRule final {
  int32_t rank = 0;
  int32_t merged = 0;
};

struct BpeTables final {
  std::vector<std::string> tokens;                    // by id; empty where there is none
  std::unordered_map<std::string_view, int32_t> ids;  // views into `tokens`
  FlatMap<int32_t> char_ids;                          // of tokens that are one character, by code point
  FlatMap<MergeRule> merges;                          // left << 32 | right
  std::array<int32_t, 256> byte_ids{};                // of <0x00> to <0xFF>; -1 where there is none
  bool byte_fallback = false;
  bool ignore_merges = false;
  bool fuse_unknown = false;
  int32_t unknown = -1;
  bool mark_begins_words = false;  // no merge puts kMark behind another character
};

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

class Bpe final : public Model {
 public:
  explicit Bpe(BpeTables tables) : tables_(std::move(tables)) {}

  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const override;

  std::optional<int32_t> token_to_id(std::string_view token) const override {
    const auto found = tables_.ids.find(token);
    if (found == tables_.ids.end()) return std::nullopt;
    return found->second;
  }

  const std::vector<std::string>& tokens() const override { return tables_.tokens; }

 private:
  void encode_cached(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;
  void make_symbols(std::string_view word, std::vector<Scratch::Symbol>& symbols) const;
  bool append_bytes(std::string_view character, std::vector<Scratch::Symbol>& symbols) const;
  void merge_symbols(Scratch& scratch) const;
  void offer(int32_t left, Scratch& scratch) const;

  BpeTables tables_;
};

void append_symbol(int32_t id, std::vector<Scratch::Symbol>& symbols) {
  const auto place = static_cast<int32_t>(symbols.size());
  if (place > 0) symbols.back().next = place;
  symbols.push_back({id, place - 1, -1});
}

void Bpe::encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const {
  if (tables_.ignore_merges) {
    if (const auto whole = tables_.ids.find(word); whole != tables_.ids.end()) {
      out.push_back(whole->second);
      return;
    }
  }
  // No merge crosses the place before a mark that follows another character, so the text may be cut there:
  // SentencePiece vocabularies see the whole text as one word, which the cache could never know.
  while (tables_.mark_begins_words) {
    size_t cut = 0;
    while (word.substr(cut).starts_with(kMark))
      cut += kMark.size();
    cut = word.find(kMark, cut);
    if (cut == std::string_view::npos) break;
    encode_cached(word.substr(0, cut), scratch, out);
    word.remove_prefix(cut);
  }
  encode_cached(word, scratch, out);
}

void Bpe::encode_cached(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const {
  if (const auto known = scratch.cache.find(word)) {
    out.insert(out.end(), known->begin(), known->end());
    return;
  }
  scratch.symbols.clear();
  make_symbols(word, scratch.symbols);
  merge_symbols(scratch);
  scratch.word_ids.clear();
  if (!scratch.symbols.empty()) {
    for (int32_t at = 0; at >= 0; at = scratch.symbols[static_cast<size_t>(at)].next) {
      scratch.word_ids.push_back(scratch.symbols[static_cast<size_t>(at)].id);
    }
  }
  out.insert(out.end(), scratch.word_ids.begin(), scratch.word_ids.end());
  scratch.cache.put(word, scratch.word_ids);
}

void Bpe::make_symbols(std::string_view word, std::vector<Scratch::Symbol>& symbols) const {
  // An unknown symbol waits for the next known one, so that several can be fused into it. Bytes do not end the waiting.
  bool unknown_waits = false;
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    const int32_t* id = tables_.char_ids.find(next_code_point(word, at));
    if (id != nullptr) {
      if (unknown_waits) append_symbol(tables_.unknown, symbols);
      unknown_waits = false;
      append_symbol(*id, symbols);
      continue;
    }
    if (tables_.byte_fallback && append_bytes(word.substr(begin, at - begin), symbols)) continue;
    if (tables_.unknown < 0) continue;  // without an unknown token the character is dropped
    if (unknown_waits && !tables_.fuse_unknown) append_symbol(tables_.unknown, symbols);
    unknown_waits = true;
  }
  if (unknown_waits) append_symbol(tables_.unknown, symbols);
}

bool Bpe::append_bytes(std::string_view character, std::vector<Scratch::Symbol>& symbols) const {
  for (const char byte : character) {
    if (tables_.byte_ids[static_cast<uint8_t>(byte)] < 0) return false;
  }
  for (const char byte : character)
    append_symbol(tables_.byte_ids[static_cast<uint8_t>(byte)], symbols);
  return true;
}

bool later(const Scratch::Merge& a, const Scratch::Merge& b) {
  return a.order > b.order;
}

/// Puts the merge of `left` and its right neighbour, if there is one, at the end of the heap's vector.
void Bpe::offer(int32_t left, Scratch& scratch) const {
  const Scratch::Symbol& symbol = scratch.symbols[static_cast<size_t>(left)];
  if (symbol.next < 0) return;
  const int32_t right_id = scratch.symbols[static_cast<size_t>(symbol.next)].id;
  const MergeRule* rule = tables_.merges.find(pair_key(symbol.id, right_id));
  if (rule == nullptr) return;
  scratch.heap.push_back({static_cast<uint64_t>(static_cast<uint32_t>(rule->rank)) << 32 | static_cast<uint32_t>(left),
                          symbol.id, right_id, rule->merged});
}

void Bpe::merge_symbols(Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  std::vector<Scratch::Merge>& heap = scratch.heap;
  heap.clear();
  for (size_t i = 0; i < symbols.size(); ++i)
    offer(static_cast<int32_t>(i), scratch);
  std::make_heap(heap.begin(), heap.end(), later);
  const auto offer_now = [&](int32_t left) {
    const size_t before = heap.size();
    offer(left, scratch);
    if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), later);
  };
  while (!heap.empty()) {
    const Scratch::Merge merge = heap.front();
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    const auto place = static_cast<int32_t>(merge.order & 0xffffffffu);
    Scratch::Symbol& left = symbols[static_cast<size_t>(place)];
    // Merges whose symbols have changed since they were offered are out of date.
    if (left.id != merge.left || left.next < 0) continue;
    Scratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    if (right.id != merge.right) continue;
    left.id = merge.merged;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = place;
    offer_now(place);
    if (left.previous >= 0) offer_now(left.previous);
  }
}

Status read_vocab(const Json& json, const Where& where, BpeTables& tables) {
  ASSIGN_OR_RETURN(const Json* vocab, field(json, "vocab", where));
  const Where here = where.child("vocab");
  if (!vocab->is_object()) return corrupt(here, "must be an object");
  if (vocab->size() > static_cast<size_t>(limits::kMaxVocab)) return corrupt(here, "too many tokens");
  int32_t highest = -1;
  for (const auto& [token, id] : vocab->items()) {
    ASSIGN_OR_RETURN(const int32_t number, to_token_id(id, here.child(token.substr(0, 80))));
    if (token.size() > static_cast<size_t>(limits::kMaxTokenBytes)) return corrupt(here, "a token is too long");
    highest = std::max(highest, number);
  }
  tables.tokens.resize(static_cast<size_t>(highest) + 1);
  std::vector<bool> taken(tables.tokens.size());
  tables.ids.reserve(vocab->size());
  for (const auto& [token, id] : vocab->items()) {
    const auto number = static_cast<size_t>(id.get<int32_t>());
    if (taken[number]) return corrupt(here.child(token.substr(0, 80)), fmt::format("id {} is given twice", number));
    taken[number] = true;
    tables.tokens[number] = token;
    tables.ids.emplace(tables.tokens[number], static_cast<int32_t>(number));
    if (!token.empty() && utf8_length(token[0]) == token.size()) {
      size_t at = 0;
      tables.char_ids.set(next_code_point(token, at), static_cast<int32_t>(number));
    }
  }
  return {};
}

Result<std::pair<std::string, std::string>> read_merge(const Json& merge, const Where& where) {
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return corrupt(where, "must be two tokens with a space between them");
    }
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
    return corrupt(where, "must be two tokens");
  }
  return std::pair(merge[0].get<std::string>(), merge[1].get<std::string>());
}

Status read_merges(const Json& json, const Where& where, BpeTables& tables) {
  ASSIGN_OR_RETURN(const Json* merges, field(json, "merges", where));
  const Where here = where.child("merges");
  if (!merges->is_array()) return corrupt(here, "must be an array");
  if (merges->size() > static_cast<size_t>(limits::kMaxVocab)) return corrupt(here, "too many merges");
  const auto id_of = [&](const std::string& token) {
    const auto found = tables.ids.find(token);
    return found == tables.ids.end() ? -1 : found->second;
  };
  tables.mark_begins_words = tables.ids.contains(kMark);
  for (size_t i = 0; i < merges->size(); ++i) {
    ASSIGN_OR_RETURN(const auto pair, read_merge((*merges)[i], here.child(i)));
    const auto& [left, right] = pair;
    // The one way for a merge to make what it merges: all others make longer tokens, so that merging comes to an end.
    if (left.empty() || right.empty()) return corrupt(here.child(i), "joins a token with nothing");
    const int32_t left_id = id_of(left);
    const int32_t right_id = id_of(right);
    const std::string merged = left + right;
    const int32_t merged_id = id_of(merged);
    if (left_id < 0 || right_id < 0 || merged_id < 0) {
      return corrupt(here.child(i), "names a token that is not in the vocabulary, or makes one");
    }
    tables.merges.set(pair_key(left_id, right_id), {static_cast<int32_t>(i), merged_id});
    size_t behind = 0;
    while (merged.compare(behind, kMark.size(), kMark) == 0)
      behind += kMark.size();
    if (merged.find(kMark, behind) != std::string::npos) tables.mark_begins_words = false;
  }
  return {};
}

Status read_options(const Json& json, const Where& where, BpeTables& tables) {
  if (const Json* dropout = find_field(json, "dropout"); dropout != nullptr && *dropout != 0) {
    return unsupported(where.child("dropout"), "random merges are not supported");
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (const Json* value = find_field(json, affix); value != nullptr && *value != Json("")) {
      return unsupported(where.child(affix), "is not supported");
    }
  }
  ASSIGN_OR_RETURN(tables.byte_fallback, bool_field(json, "byte_fallback", false, where));
  ASSIGN_OR_RETURN(tables.ignore_merges, bool_field(json, "ignore_merges", false, where));
  ASSIGN_OR_RETURN(tables.fuse_unknown, bool_field(json, "fuse_unk", false, where));
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto found = tables.ids.find(fmt::format("<0x{:02X}>", byte));
    tables.byte_ids[byte] = found == tables.ids.end() ? -1 : found->second;
  }
  if (find_field(json, "unk_token") == nullptr) return {};
  ASSIGN_OR_RETURN(const std::string unknown, string_field(json, "unk_token", where));
  const auto found = tables.ids.find(unknown);
  if (found == tables.ids.end()) return corrupt(where.child("unk_token"), "is not in the vocabulary");
  tables.unknown = found->second;
  return {};
}

}  // namespace

Result<std::unique_ptr<Model>> make_bpe(const Json& json, const Where& where) {
  BpeTables tables;
  RETURN_IF_ERROR(read_vocab(json, where, tables));
  RETURN_IF_ERROR(read_merges(json, where, tables));
  RETURN_IF_ERROR(read_options(json, where, tables));
  return std::unique_ptr<Model>(new Bpe(std::move(tables)));
}

}  // namespace krait::tokenizer
