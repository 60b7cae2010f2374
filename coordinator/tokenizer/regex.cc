#include "coordinator/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <new>

#include "common/base/limits.h"

namespace krait::tokenizer {
namespace {

// PCRE2's own \s also holds U+180E, which has not been a space since Unicode 6.3.
constexpr std::string_view kSpaces = "\\p{Z}\\t-\\r\\x{85}";
constexpr size_t kJitStackStartBytes = 32 * 1024;
constexpr size_t kJitStackMaxBytes = 1024 * 1024;

/// The expression with the shorthands that mean something else in PCRE2 written out.
std::string translate(std::string_view pattern) {
  std::string out;
  int class_depth = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's' && class_depth > 0) {
        out += kSpaces;
      } else if ((next == 's' || next == 'S') && class_depth == 0) {
        out += next == 's' ? "[" : "[^";
        out += kSpaces;
        out += ']';
      } else if (next == 'h' && class_depth == 0) {
        out += "[0-9A-Fa-f]";
      } else {
        out += c;
        out += next;
      }
      continue;
    }
    if (c == '[') {
      ++class_depth;
    } else if (c == ']' && class_depth > 0) {
      --class_depth;
    }
    out += c;
  }
  return out;
}

PCRE2_SPTR bytes_of(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

}  // namespace

struct RegexScratch::Data final {
  pcre2_match_data* match = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
};

RegexScratch::RegexScratch() : data_(std::make_unique<Data>()) {
  data_->match = pcre2_match_data_create(1, nullptr);
  data_->context = pcre2_match_context_create(nullptr);
  data_->stack = pcre2_jit_stack_create(kJitStackStartBytes, kJitStackMaxBytes, nullptr);
  if (data_->match == nullptr || data_->context == nullptr || data_->stack == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit(data_->context, static_cast<uint32_t>(limits::kMaxRegexSteps));
  pcre2_jit_stack_assign(data_->context, nullptr, data_->stack);
}

RegexScratch::~RegexScratch() {
  pcre2_match_data_free(data_->match);
  pcre2_match_context_free(data_->context);
  pcre2_jit_stack_free(data_->stack);
}

struct Regex::Code final {
  pcre2_code* code = nullptr;

  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

Result<Regex> Regex::compile(std::string_view pattern, std::string_view where) {
  const std::string translated = translate(pattern);
  int code = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_unique<Code>();
  // NEVER_BACKSLASH_C and the missing NO_UTF_CHECK guard against a pattern; the texts are checked before they come
  // here.
  compiled->code =
      pcre2_compile(bytes_of(translated), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &offset, nullptr);
  if (compiled->code == nullptr) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(code, message.data(), message.size());
    return Error{Errc::kUnsupported,
                 fmt::format("{}: the pattern cannot be compiled: {} at byte {}", where,
                             reinterpret_cast<const char*>(message.data()), offset),
                 std::string(where)};
  }
  // Where there is no JIT, pcre2_match interprets.
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  return Regex(std::move(compiled));
}

Result<Regex::Match> Regex::find(std::string_view text, size_t from, RegexScratch& scratch) const {
  RegexScratch::Data& data = *scratch.data_;
  int found = pcre2_match(code_->code, bytes_of(text), text.size(), from, PCRE2_NO_UTF_CHECK, data.match, data.context);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
    found = pcre2_match(code_->code, bytes_of(text), text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.match,
                        data.context);
  }
  if (found == PCRE2_ERROR_NOMATCH) return Match{};
  if (found < 0) {
    return Error{Errc::kResourceExhausted,
                 fmt::format("a pattern of the tokenizer gives up on this text (PCRE2 error {})", found), ""};
  }
  // Zero says that there were more groups than the one pair of offsets that is kept.
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data.match);
  // \K inside a look-ahead can put the beginning behind the end.
  if (offsets[0] > offsets[1] || offsets[0] < from) {
    return Error{Errc::kUnsupported, "a pattern of the tokenizer moves its match out of order", ""};
  }
  return Match{true, offsets[0], offsets[1]};
}

}  // namespace krait::tokenizer
