// "added_tokens": tokens that are found in the text before the model sees it, special or not.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/byte_range.h"
#include "coordinator/tokenizer/flat_map.h"
#include "coordinator/tokenizer/json_part.h"
#include "coordinator/tokenizer/normalizers.h"

namespace krait::tokenizer {

struct AddedToken final {
  std::string content;
  int32_t id = 0;
  bool special = false;
  bool normalized = false;   // looked for in the normalized text, by its own normalized form
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the spaces before it
  bool rstrip = false;       // takes the spaces behind it
};

/// Reads the array "added_tokens".
Result<std::vector<AddedToken>> read_added_tokens(const Json& file);

/// Finds the added tokens of one kind (normalized or not) in a text.
class AddedTokenMatcher final {
 public:
  /// A stretch of ordinary text (token is -1) or an added token.
  struct Segment final {
    size_t begin = 0;
    size_t end = 0;
    int32_t token = -1;
  };

  /// `as_seen` is the token's text as it will stand in the texts; one that is empty is never found.
  void add(const AddedToken& token, std::string_view as_seen);

  /// Cuts `text` into segments, none empty, in order: at each place the longest token that begins there. Special tokens
  /// are passed over as text where parse_special is false, and where they touch untrusted bytes (ascending ranges).
  /// Appends to `out`.
  void split(std::string_view text, bool parse_special, std::span<const ByteRange> untrusted,
             std::vector<Segment>& out) const;

 private:
  struct Node final {
    int32_t token = -1;  // in tokens_
  };
  struct Found final {
    int32_t token = -1;
    size_t end = 0;
  };

  /// The longest token at a place; with untrusted bytes, the longest that they do not hide.
  Found longest_at(std::string_view text, size_t begin, std::span<const ByteRange> untrusted) const;
  static bool stands_alone(std::string_view text, size_t begin, size_t end);

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{Node{}};
  FlatMap<int32_t> edges_;  // node << 8 | byte
  std::array<bool, 256> begins_{};
};

}  // namespace krait::tokenizer
