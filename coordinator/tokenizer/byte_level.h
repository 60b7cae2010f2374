// GPT-2's byte alphabet (each byte written as one printable character) and its cutting of text into words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace krait::tokenizer {

/// Appends the character of each byte.
void append_byte_chars(std::string_view bytes, std::string& out);

/// The byte that a character stands for.
std::optional<uint8_t> byte_of_char(char32_t code_point);

/// The bytes that `token` stands for: those of its characters where all are of the alphabet, else its own.
std::string bytes_of_byte_chars(std::string_view token);

/// Behind the last byte of the word that begins at `begin` < text.size(), by GPT-2's expression
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// written out by hand, which is several times faster than an expression engine. Words cover the text without gaps.
size_t gpt2_word_end(std::string_view text, size_t begin);

}  // namespace krait::tokenizer
