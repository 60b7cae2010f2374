// Stop strings in a text that arrives in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace krait::tokenizer {

/// The stop strings of a request as one automaton (Aho and Corasick, 1975), built once for all of its sequences. Its
/// node is the longest end of the text so far that begins some stop string: just what must be held back. Immutable.
class StopStrings final {
 public:
  /// Empty stop strings never match. Takes time and memory in proportion to their bytes.
  explicit StopStrings(std::vector<std::string> stops);

  static constexpr uint32_t kRoot = 0;

  /// The node after one more byte of text.
  uint32_t next(uint32_t node, uint8_t byte) const;
  /// How many bytes of text the node stands for.
  size_t depth(uint32_t node) const { return nodes_[node].depth; }
  /// The index of the stop string that is complete at the node, the longest if there are several; else negative.
  int32_t complete(uint32_t node) const { return nodes_[node].which; }

  const std::vector<std::string>& strings() const { return stops_; }
  /// Memory that this takes.
  size_t bytes() const;

 private:
  // In order of depth, so that the children of a node lie side by side, those of the next node behind them.
  struct Node final {
    uint32_t first_child = 0;
    uint32_t fail = kRoot;  // of the longest proper end that begins some stop string
    uint32_t depth = 0;
    int32_t which = -1;
    uint8_t byte = 0;  // from its parent; ascending among siblings
  };

  std::vector<Node> nodes_;  // the last one is no node: it ends the children of the one before
  std::vector<std::string> stops_;
};

/// Passes text through, holding back only what may yet turn out to be the beginning of a stop string. The match that is
/// complete first wins, and of those that end together the longest: so the outcome does not depend on how the text was
/// cut. Time per byte hardly depends on the number of stop strings. Not thread-safe; one object a sequence.
class StopMatcher final {
 public:
  struct Piece final {
    std::string text;      // may be sent now
    bool stopped = false;  // a stop string was found; `text` ends before it (or after it, if it is to be included)
    size_t which = 0;      // its index in StopStrings::strings(), when stopped
  };

  explicit StopMatcher(std::shared_ptr<const StopStrings> stops, bool include_stop_in_output = false)
      : stops_(std::move(stops)), include_stop_in_output_(include_stop_in_output) {}

  /// `new_text` is whole characters. After a stop was found, every push returns no text and the same stop.
  Piece push(std::string_view new_text);

  /// The text held back, when the sequence ended without a stop string. Empty after a stop.
  std::string flush();

 private:
  std::shared_ptr<const StopStrings> stops_;
  std::string held_;  // always the bytes of node_'s path
  uint32_t node_ = StopStrings::kRoot;
  bool include_stop_in_output_;
  bool stopped_ = false;
  size_t which_ = 0;
};

}  // namespace krait::tokenizer
