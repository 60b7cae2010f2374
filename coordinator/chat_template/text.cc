#include "coordinator/chat_template/text.h"

#include <algorithm>
#include <utility>

#include "common/base/limits.h"

namespace krait::chat_template {

const int Budget::kMaxDepth = limits::kMaxTemplateDepth;
const int64_t Budget::kSteps = limits::kMaxTemplateSteps;
const int64_t Budget::kBytes = limits::kMaxTemplateBytes;

void refuse(std::string message) {
  throw RenderError{std::move(message)};
}

void Budget::out_of_steps() {
  refuse("the template takes too many steps");
}

void Budget::out_of_bytes() {
  refuse("the template makes too much text");
}

void Budget::too_deep() {
  refuse("the template nests too deeply");
}

void TextBuilder::mark(size_t begin, size_t end) {
  auto& untrusted = out_->untrusted;
  if (begin == end) return;
  if (!untrusted.empty() && untrusted.back().end == begin) {
    untrusted.back().end = end;
    return;
  }
  budget_.take(sizeof(ByteRange));
  untrusted.push_back({begin, end});
}

void TextBuilder::append(std::string_view bytes, bool trusted) {
  budget_.take(bytes.size());
  const size_t begin = out_->bytes.size();
  out_->bytes += bytes;
  if (!trusted) mark(begin, begin + bytes.size());
}

void TextBuilder::append(const Text& text, size_t begin, size_t end) {
  budget_.take(end - begin);
  const size_t shift = out_->bytes.size();
  out_->bytes.append(text.bytes, begin, end - begin);
  auto range = std::upper_bound(text.untrusted.begin(), text.untrusted.end(), begin,
                                [](size_t at, const ByteRange& r) { return at < r.end; });
  for (; range != text.untrusted.end() && range->begin < end; ++range) {
    mark(shift + std::max(range->begin, begin) - begin, shift + std::min(range->end, end) - begin);
  }
}

bool trusted_at(const Text& text, size_t at) {
  const auto range = std::upper_bound(text.untrusted.begin(), text.untrusted.end(), at,
                                      [](size_t place, const ByteRange& r) { return place < r.end; });
  return range == text.untrusted.end() || at < range->begin;
}

}  // namespace krait::chat_template
