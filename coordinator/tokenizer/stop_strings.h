// Stop strings in a text that arrives in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace krait::tokenizer {

/// Passes text through, holding back only what may yet turn out to be the beginning of a stop string. The match that is
/// complete first wins, and of those that end together the longest: so the outcome does not depend on how the text was
/// cut. Time per byte does not depend on the number of stop strings. Not thread-safe; one object a sequence.
class StopMatcher final {
 public:
  struct Piece final {
    std::string text;      // may be sent now
    bool stopped = false;  // a stop string was found; `text` ends before it (or after it, if it is to be included)
    size_t which = 0;      // its index in the constructor's list, when stopped
  };

  /// Empty stop strings never match. With no stop strings everything passes at once.
  explicit StopMatcher(std::vector<std::string> stops, bool include_stop_in_output = false);

  /// `new_text` is whole characters. After a stop was found, every push returns no text and the same stop.
  Piece push(std::string_view new_text);

  /// The text held back, when the sequence ended without a stop string. Empty after a stop.
  std::string flush();

 private:
  struct Node final {
    std::vector<std::pair<uint8_t, int32_t>> children;
    int32_t fail = 0;    // node of the longest proper suffix that is a prefix of some stop string
    int32_t depth = 0;   // bytes
    int32_t which = -1;  // stop string that ends here, itself or as a suffix: the longest
  };

  int32_t child(int32_t node, uint8_t byte) const;
  void add(std::string_view stop, int32_t which);
  void link_failures();

  std::vector<std::string> stops_;
  bool include_stop_in_output_;
  std::vector<Node> nodes_;
  int32_t node_ = 0;
  std::string held_;  // always the bytes of node_'s path
  bool stopped_ = false;
  size_t which_ = 0;
};

}  // namespace krait::tokenizer
