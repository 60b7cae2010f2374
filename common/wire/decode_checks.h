// What decode() asks of every field: in range, finite, not too long. Inside the room only.
#pragma once

#include <capnp/blob.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/limits.h"

namespace krait::wire::decoding {

/// Thrown by these checks and caught by decode(); it goes no further.
struct Refusal final {
  std::string reason;
};

[[noreturn]] inline void refuse(std::string reason) {
  throw Refusal{std::move(reason)};
}

template <class T>
T in_range(std::string_view field, T value, int64_t low, int64_t high) {
  if (std::cmp_less(value, low) || std::cmp_greater(value, high)) {
    refuse(fmt::format("{} is {}, not in [{}, {}]", field, value, low, high));
  }
  return value;
}

template <class T>
T finite(std::string_view field, T value) {
  if (!std::isfinite(value)) refuse(fmt::format("{} is not finite", field));
  return value;
}

inline float positive(std::string_view field, float value) {
  if (!(finite(field, value) > 0)) refuse(fmt::format("{} is not above zero", field));
  return value;
}

inline int64_t not_negative(std::string_view field, int64_t value) {
  return in_range(field, value, 0, std::numeric_limits<int64_t>::max());
}
inline int32_t token_id(std::string_view field, int32_t value) {
  return in_range(field, value, 0, limits::kMaxVocab - 1);
}
inline int32_t slot_id(std::string_view field, int32_t value) {
  return in_range(field, value, 0, limits::kMaxSlots - 1);
}
inline uint32_t slot_count(std::string_view field, uint32_t value) {
  return in_range(field, value, 0, limits::kMaxSlots);
}
inline uint32_t position(std::string_view field, uint32_t value) {
  return in_range(field, value, 0, limits::kMaxSequenceTokens);
}
inline uint32_t rank_id(uint32_t value) {
  return in_range("rank", value, 0, limits::kMaxWorld - 1);
}
inline uint32_t world_size(uint32_t value) {
  return in_range("world", value, 1, limits::kMaxWorld);
}
inline uint32_t port(uint32_t value) {
  return in_range("metrics port", value, 0, 65'535);
}

inline std::string text(std::string_view field, capnp::Text::Reader value, int64_t max_bytes) {
  if (std::cmp_greater(value.size(), max_bytes)) {
    refuse(fmt::format("{} has {} bytes, more than {}", field, value.size(), max_bytes));
  }
  return {value.cStr(), value.size()};
}
inline std::string name(std::string_view field, capnp::Text::Reader value) {
  return text(field, value, limits::kMaxWireNameBytes);
}
inline std::string words(std::string_view field, capnp::Text::Reader value) {
  return text(field, value, limits::kMaxWireTextBytes);
}

template <class List>
inline uint32_t list_size(std::string_view field, const List& list, int64_t max_size) {
  if (std::cmp_greater(list.size(), max_size)) {
    refuse(fmt::format("{} has {} elements, more than {}", field, list.size(), max_size));
  }
  return list.size();
}

template <class T, class List>
std::vector<T> numbers(std::string_view field, const List& list, int64_t max_size) {
  const uint32_t size = list_size(field, list, max_size);
  std::vector<T> values(size);
  for (uint32_t i = 0; i < size; ++i)
    values[i] = list[i];
  return values;
}

template <class List>
std::vector<int32_t> token_ids(std::string_view field, const List& list, int64_t max_size) {
  std::vector<int32_t> tokens = numbers<int32_t>(field, list, max_size);
  for (const int32_t token : tokens)
    token_id(field, token);
  return tokens;
}

template <class List>
std::vector<int32_t> page_ids(std::string_view field, const List& list) {
  std::vector<int32_t> pages = numbers<int32_t>(field, list, limits::kMaxSequencePages);
  for (const int32_t page : pages)
    in_range(field, page, 0, limits::kMaxKvPages - 1);
  return pages;
}

template <class T, class List>
std::vector<T> structs(std::string_view field, const List& list, int64_t max_size) {
  std::vector<T> values(list_size(field, list, max_size));
  for (size_t i = 0; i < values.size(); ++i)
    get(list[static_cast<uint32_t>(i)], values[i]);
  return values;
}

}  // namespace krait::wire::decoding
