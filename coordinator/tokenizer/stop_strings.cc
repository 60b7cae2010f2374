#include "coordinator/tokenizer/stop_strings.h"

#include <algorithm>
#include <numeric>

namespace krait::tokenizer {
namespace {

/// Where those that are not empty are, in the order of their bytes; equal ones in the order given.
std::vector<uint32_t> sorted_indices(const std::vector<std::string>& stops) {
  std::vector<uint32_t> sorted(stops.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::erase_if(sorted, [&](uint32_t i) { return stops[i].empty(); });
  std::stable_sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) { return stops[a] < stops[b]; });
  return sorted;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> stops) : nodes_(1), stops_(std::move(stops)) {
  struct Range final {
    size_t begin = 0;
    size_t end = 0;
  };
  const std::vector<uint32_t> sorted = sorted_indices(stops_);
  std::vector<Range> ranges{{0, sorted.size()}};  // by node: the sorted stop strings that begin with its path
  for (uint32_t at = 0; at < nodes_.size(); ++at) {
    // All nodes above, where its failures are, are complete.
    Node node = nodes_[at];
    auto [begin, end] = ranges[at];
    node.first_child = static_cast<uint32_t>(nodes_.size());
    node.which = nodes_[node.fail].which;
    if (begin < end && stops_[sorted[begin]].size() == node.depth) node.which = static_cast<int32_t>(sorted[begin]);
    nodes_[at] = node;
    while (begin < end && stops_[sorted[begin]].size() == node.depth)
      ++begin;
    while (begin < end) {
      const char byte = stops_[sorted[begin]][node.depth];
      Range with_byte{begin, begin};
      while (with_byte.end < end && stops_[sorted[with_byte.end]][node.depth] == byte)
        ++with_byte.end;
      const uint32_t fail = at == kRoot ? kRoot : next(node.fail, static_cast<uint8_t>(byte));
      nodes_.push_back({0, fail, node.depth + 1, -1, static_cast<uint8_t>(byte)});
      ranges.push_back(with_byte);
      begin = with_byte.end;
    }
  }
  nodes_.push_back({static_cast<uint32_t>(nodes_.size()), kRoot, 0, -1, 0});
  nodes_.shrink_to_fit();
}

uint32_t StopStrings::next(uint32_t node, uint8_t byte) const {
  while (true) {
    const auto begin = nodes_.begin() + nodes_[node].first_child;
    const auto end = nodes_.begin() + nodes_[node + 1].first_child;
    const auto child = std::lower_bound(begin, end, byte, [](const Node& a, uint8_t b) { return a.byte < b; });
    if (child != end && child->byte == byte) return static_cast<uint32_t>(child - nodes_.begin());
    if (node == kRoot) return kRoot;
    node = nodes_[node].fail;
  }
}

size_t StopStrings::bytes() const {
  size_t bytes = nodes_.size() * sizeof(Node);
  for (const std::string& stop : stops_)
    bytes += sizeof(std::string) + stop.size();
  return bytes;
}

StopMatcher::Piece StopMatcher::push(std::string_view new_text) {
  if (stopped_) return {"", true, which_};
  std::string text = std::exchange(held_, {});
  for (size_t i = 0; i < new_text.size(); ++i) {
    node_ = stops_->next(node_, static_cast<uint8_t>(new_text[i]));
    const int32_t which = stops_->complete(node_);
    if (which < 0) continue;
    stopped_ = true;
    which_ = static_cast<size_t>(which);
    text += new_text.substr(0, i + 1);
    if (!include_stop_in_output_) text.resize(text.size() - stops_->strings()[which_].size());
    return {std::move(text), true, which_};
  }
  text += new_text;
  const size_t sure = text.size() - stops_->depth(node_);
  held_ = text.substr(sure);
  text.resize(sure);
  return {std::move(text), false, 0};
}

std::string StopMatcher::flush() {
  node_ = StopStrings::kRoot;
  return std::exchange(held_, {});
}

}  // namespace krait::tokenizer
