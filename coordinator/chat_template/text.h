// Text that remembers which of its bytes the template's author did not write, and what a render may use up.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/byte_range.h"

namespace krait::chat_template {

/// What stops a render; thrown within the room, caught at its border. The place is known where it is caught.
struct RenderError final {
  std::string message;
  bool raised = false;  // by the template itself
};

[[noreturn]] void refuse(std::string message);

/// What a render has used up, against the bounds in common/base/limits.h.
class Budget final {
 public:
  /// One evaluation, or one item passed over.
  void step() {
    if (--steps_left_ < 0) [[unlikely]]
      out_of_steps();
  }
  /// Bytes or items that are looked at without an evaluation of their own.
  void walk(size_t count) {
    steps_left_ -= static_cast<int64_t>(count / kWalkedInAStep);
    if (steps_left_ < 0) [[unlikely]]
      out_of_steps();
  }
  /// Memory that a value takes. What is freed does not come back: the sum bounds the time too.
  void take(size_t bytes) {
    bytes_left_ -= static_cast<int64_t>(bytes);
    if (bytes_left_ < 0 || bytes > kOverflow) [[unlikely]]
      out_of_bytes();
  }
  /// One evaluation inside another: each takes a piece of the stack. Every enter has its leave.
  void enter() {
    if (++depth_ > kMaxDepth) [[unlikely]]
      too_deep();
  }
  void leave() { --depth_; }

 private:
  static constexpr size_t kWalkedInAStep = 16;
  static constexpr size_t kOverflow = size_t{1} << 62;
  static const int kMaxDepth;
  [[noreturn]] static void out_of_steps();
  [[noreturn]] static void out_of_bytes();
  [[noreturn]] static void too_deep();

  static const int64_t kSteps;
  static const int64_t kBytes;
  int64_t steps_left_ = kSteps;
  int64_t bytes_left_ = kBytes;
  int depth_ = 0;
};

/// What a Value may refer to. `depth` is how deep containers nest below: bounded, so that no walk overflows the stack.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
  int depth = 0;
};

struct Text final : Object {
  std::string bytes;                 // UTF-8
  std::vector<ByteRange> untrusted;  // ascending, apart from each other, none empty

  Text(std::string text, bool trusted) : bytes(std::move(text)) {
    if (!trusted && !bytes.empty()) untrusted.push_back({0, bytes.size()});
  }
};

/// Puts a text together from pieces with their trust.
class TextBuilder final {
 public:
  explicit TextBuilder(Budget& budget) : budget_(budget), out_(std::make_shared<Text>("", true)) {}

  void append(std::string_view bytes, bool trusted = true);
  void append(const Text& text) { append(text, 0, text.bytes.size()); }
  /// Bytes [begin, end) of `text`.
  void append(const Text& text, size_t begin, size_t end);

  size_t size() const { return out_->bytes.size(); }
  Budget& budget() { return budget_; }
  std::shared_ptr<Text> take() { return std::move(out_); }

 private:
  void mark(size_t begin, size_t end);

  Budget& budget_;
  std::shared_ptr<Text> out_;
};

/// Whether the byte at `at` is the author's.
bool trusted_at(const Text& text, size_t at);

}  // namespace krait::chat_template
