// Where the classes of characters differ from utf8proc's tables, by code point.
#pragma once

#include <array>
#include <cstdint>

namespace krait::tokenizer {

enum class Newer : uint8_t { kLetter, kNumber, kMark };

struct NewerRange final {
  char32_t first = 0;
  char32_t last = 0;
  Newer kind = Newer::kLetter;
};

/// Characters that came into Unicode between 14 (utf8proc 2.8) and 16, in order.
inline constexpr std::array<NewerRange, 42> kNewerRanges{{
    {0x897, 0x897, Newer::kMark},       {0x1c89, 0x1c8a, Newer::kLetter},   {0xa7cb, 0xa7cd, Newer::kLetter},
    {0xa7da, 0xa7dc, Newer::kLetter},   {0x105c0, 0x105f3, Newer::kLetter}, {0x10d40, 0x10d49, Newer::kNumber},
    {0x10d4a, 0x10d65, Newer::kLetter}, {0x10d69, 0x10d6d, Newer::kMark},   {0x10d6f, 0x10d85, Newer::kLetter},
    {0x10ec2, 0x10ec4, Newer::kLetter}, {0x10efc, 0x10efc, Newer::kMark},   {0x11380, 0x11389, Newer::kLetter},
    {0x1138b, 0x1138b, Newer::kLetter}, {0x1138e, 0x1138e, Newer::kLetter}, {0x11390, 0x113b5, Newer::kLetter},
    {0x113b7, 0x113b7, Newer::kLetter}, {0x113b8, 0x113c0, Newer::kMark},   {0x113c2, 0x113c2, Newer::kMark},
    {0x113c5, 0x113c5, Newer::kMark},   {0x113c7, 0x113ca, Newer::kMark},   {0x113cc, 0x113d0, Newer::kMark},
    {0x113d1, 0x113d1, Newer::kLetter}, {0x113d2, 0x113d2, Newer::kMark},   {0x113d3, 0x113d3, Newer::kLetter},
    {0x113e1, 0x113e2, Newer::kMark},   {0x116d0, 0x116e3, Newer::kNumber}, {0x11bc0, 0x11be0, Newer::kLetter},
    {0x11bf0, 0x11bf9, Newer::kNumber}, {0x11f5a, 0x11f5a, Newer::kMark},   {0x13460, 0x143fa, Newer::kLetter},
    {0x16100, 0x1611d, Newer::kLetter}, {0x1611e, 0x1612f, Newer::kMark},   {0x16130, 0x16139, Newer::kNumber},
    {0x16d40, 0x16d6c, Newer::kLetter}, {0x16d70, 0x16d79, Newer::kNumber}, {0x18cff, 0x18cff, Newer::kLetter},
    {0x1ccf0, 0x1ccf9, Newer::kNumber}, {0x1e5d0, 0x1e5ed, Newer::kLetter}, {0x1e5ee, 0x1e5ef, Newer::kMark},
    {0x1e5f0, 0x1e5f0, Newer::kLetter}, {0x1e5f1, 0x1e5fa, Newer::kNumber}, {0x2ebf0, 0x2ee5d, Newer::kLetter},
}};

struct CodePointRange final {
  char32_t first = 0;
  char32_t last = 0;
};

/// Punctuation that the reference library's pre-tokenizer of that name does not know: its tables are older. In order.
inline constexpr std::array<CodePointRange, 32> kUnknownPunctuation{{
    {0x61d, 0x61d},     {0x9fd, 0x9fd},     {0xa76, 0xa76},     {0xc77, 0xc77},     {0xc84, 0xc84},
    {0x1b7d, 0x1b7e},   {0x2e43, 0x2e4f},   {0x2e52, 0x2e5d},   {0x10ead, 0x10ead}, {0x10f55, 0x10f59},
    {0x10f86, 0x10f89}, {0x1144b, 0x1144f}, {0x1145a, 0x1145b}, {0x1145d, 0x1145d}, {0x11660, 0x1166c},
    {0x116b9, 0x116b9}, {0x1183b, 0x1183b}, {0x11944, 0x11946}, {0x119e2, 0x119e2}, {0x11a3f, 0x11a46},
    {0x11a9a, 0x11a9c}, {0x11a9e, 0x11aa2}, {0x11b00, 0x11b09}, {0x11c41, 0x11c45}, {0x11c70, 0x11c71},
    {0x11ef7, 0x11ef8}, {0x11f43, 0x11f4f}, {0x11fff, 0x11fff}, {0x12ff1, 0x12ff2}, {0x16e97, 0x16e9a},
    {0x16fe2, 0x16fe2}, {0x1e95e, 0x1e95f},
}};

}  // namespace krait::tokenizer
