#include "coordinator/tokenizer/stop_strings.h"

#include <deque>

namespace krait::tokenizer {

// The stop strings form one automaton (Aho and Corasick, 1975): its state is the longest end of the text so far that
// begins some stop string, which is just what must be held back.

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop_in_output)
    : stops_(std::move(stops)), include_stop_in_output_(include_stop_in_output), nodes_(1) {
  for (size_t i = 0; i < stops_.size(); ++i)
    add(stops_[i], static_cast<int32_t>(i));
  link_failures();
}

int32_t StopMatcher::child(int32_t node, uint8_t byte) const {
  for (const auto& [edge, next] : nodes_[static_cast<size_t>(node)].children) {
    if (edge == byte) return next;
  }
  return -1;
}

void StopMatcher::add(std::string_view stop, int32_t which) {
  if (stop.empty()) return;
  int32_t node = 0;
  for (const char c : stop) {
    const auto byte = static_cast<uint8_t>(c);
    int32_t next = child(node, byte);
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      const int32_t depth = nodes_[static_cast<size_t>(node)].depth + 1;
      nodes_[static_cast<size_t>(node)].children.emplace_back(byte, next);
      nodes_.push_back(Node{{}, 0, depth, -1});
    }
    node = next;
  }
  Node& end = nodes_[static_cast<size_t>(node)];
  if (end.which < 0) end.which = which;
}

void StopMatcher::link_failures() {
  std::deque<int32_t> open{0};
  while (!open.empty()) {
    const int32_t parent = open.front();
    open.pop_front();
    for (const auto& [byte, node] : nodes_[static_cast<size_t>(parent)].children) {
      int32_t fail = nodes_[static_cast<size_t>(parent)].fail;
      while (fail != 0 && child(fail, byte) < 0)
        fail = nodes_[static_cast<size_t>(fail)].fail;
      const int32_t next = parent == 0 ? -1 : child(fail, byte);
      Node& made = nodes_[static_cast<size_t>(node)];
      made.fail = next < 0 ? 0 : next;
      if (made.which < 0) made.which = nodes_[static_cast<size_t>(made.fail)].which;
      open.push_back(node);
    }
  }
}

StopMatcher::Piece StopMatcher::push(std::string_view new_text) {
  if (stopped_) return {"", true, which_};
  if (nodes_.size() == 1) return {std::string(new_text), false, 0};
  std::string text = std::move(held_);
  held_.clear();
  for (size_t i = 0; i < new_text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(new_text[i]);
    int32_t next = child(node_, byte);
    while (next < 0 && node_ != 0) {
      node_ = nodes_[static_cast<size_t>(node_)].fail;
      next = child(node_, byte);
    }
    node_ = next < 0 ? 0 : next;
    const int32_t which = nodes_[static_cast<size_t>(node_)].which;
    if (which < 0) continue;
    stopped_ = true;
    which_ = static_cast<size_t>(which);
    text += new_text.substr(0, i + 1);
    if (!include_stop_in_output_) text.resize(text.size() - stops_[which_].size());
    return {std::move(text), true, which_};
  }
  text += new_text;
  const size_t sure = text.size() - static_cast<size_t>(nodes_[static_cast<size_t>(node_)].depth);
  held_ = text.substr(sure);
  text.resize(sure);
  return {std::move(text), false, 0};
}

std::string StopMatcher::flush() {
  node_ = 0;
  std::string text = std::move(held_);
  held_.clear();
  return text;
}

}  // namespace krait::tokenizer
