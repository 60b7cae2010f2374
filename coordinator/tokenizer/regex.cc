#include "coordinator/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <limits>
#include <new>

#include "common/base/limits.h"
#include "common/base/units.h"
#include "coordinator/tokenizer/unicode_ranges.h"

namespace krait::tokenizer {
namespace {

// White_Space. PCRE2's own \s also holds U+180E, which has not been a space since Unicode 6.3.
constexpr std::string_view kSpaces = "\\p{Z}\\t-\\r\\x{85}";
// Oniguruma's \w: PCRE2's own lacks marks and holds every number.
constexpr std::string_view kWordChars = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";
constexpr std::string_view kHexDigits = "0-9A-Fa-f";
constexpr size_t kJitStackStartBytes = 32 * 1024;
constexpr size_t kJitStackMaxBytes = 1024 * 1024;
constexpr size_t kStepsBetweenLooks = size_t{1} << 29;  // at the clock: less than a second

PCRE2_SPTR bytes_of(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

Error too_long() {
  return {Errc::kInvalidArgument, "the tokenizer's patterns take too long on this text", ""};
}

int match_from(const pcre2_code* code, std::string_view text, size_t from, pcre2_match_data* match,
               pcre2_match_context* context) {
  const auto with = [&](uint32_t options) {
    return pcre2_match(code, bytes_of(text), text.size(), from, PCRE2_NO_UTF_CHECK | options, match, context);
  };
  const int found = with(0);
  return found == PCRE2_ERROR_JIT_STACKLIMIT ? with(PCRE2_NO_JIT) : found;
}

/// What a match that PCRE2 gave up says. The author of the text can help most of it, by another text.
Error error_of(int code) {
  switch (code) {
    case PCRE2_ERROR_MATCHLIMIT:
      return {Errc::kInvalidArgument, "a pattern of the tokenizer needs too many steps for this text", ""};
    case PCRE2_ERROR_DEPTHLIMIT:
    case PCRE2_ERROR_HEAPLIMIT:
      return {Errc::kInvalidArgument, "a pattern of the tokenizer needs too much memory for this text", ""};
    case PCRE2_ERROR_RECURSELOOP:
      return {Errc::kUnsupported, "a pattern of the tokenizer calls itself without end", ""};
    default:
      return {Errc::kResourceExhausted, fmt::format("a pattern of the tokenizer fails (PCRE2 error {})", code), ""};
  }
}

/// Members of a class: characters with the category or of the script that are newer than PCRE2's tables.
std::string newer_members(std::string_view property) {
  std::string members;
  const auto add = [&members](const auto& range) {
    members +=
        fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<uint32_t>(range.first), static_cast<uint32_t>(range.last));
  };
  for (const CategoryRange& range : kNewerRanges) {
    if (range.category.starts_with(property)) add(range);
  }
  for (const ScriptRange& range : kNewerScripts) {
    if (range.script == property) add(range);
  }
  return members;
}

/// Whether \p{sc:NAME} is known: the characters of a script. PCRE2's \p{NAME} would be those that it uses as well.
bool is_script(std::string_view name) {
  int code = 0;
  PCRE2_SIZE offset = 0;
  const std::string pattern = fmt::format("\\p{{sc:{}}}", name);
  pcre2_code* compiled = pcre2_compile(bytes_of(pattern), pattern.size(), PCRE2_UTF, &code, &offset, nullptr);
  pcre2_code_free(compiled);
  return compiled != nullptr;
}

/// Appends \p{NAME}, \P{NAME} or \p{^NAME}, whose braces are at [open, close].
void append_property(std::string_view pattern, size_t open, size_t close, bool in_class, std::string& out) {
  std::string_view name = pattern.substr(open + 1, close - open - 1);
  bool negative = pattern[open - 1] == 'P';
  if (name.starts_with('^')) {
    negative = !negative;
    name.remove_prefix(1);
  }
  const std::string property = fmt::format("{{{}{}}}", is_script(name) ? "sc:" : "", name);
  if (!in_class) {
    out += fmt::format("[{}\\p{}{}]", negative ? "^" : "", property, newer_members(name));
  } else if (negative) {
    out += "\\P" + property;  // newer characters cannot be left out inside a class
  } else {
    out += "\\p" + property + newer_members(name);
  }
}

/// Appends the escape of `c`. Empty, or why it cannot be said in PCRE2.
std::string_view append_escape(char c, bool in_class, std::string& out) {
  if (c == 'b' && !in_class) return "\\b is not supported";
  if (c == 'B') return "\\B is not supported";
  if (c == 'G') return "\\G is not supported";
  const bool negative = c == 'S' || c == 'W' || c == 'H' || c == 'D';
  std::string members;
  if (c == 's' || c == 'S') members = kSpaces;
  if (c == 'w' || c == 'W')
    members = fmt::format("{}{}{}{}", kWordChars, newer_members("L"), newer_members("M"), newer_members("Nd"));
  if (c == 'h' || c == 'H') members = kHexDigits;
  if (c == 'd' || c == 'D') members = "\\p{Nd}" + newer_members("Nd");
  if (in_class && (c == 'W' || c == 'H')) return "\\W and \\H are not supported inside a class";
  // Inside a class \S and \D keep PCRE2's meaning, which differs in U+180E and in newer digits.
  if (members.empty() || (in_class && negative)) {
    out += '\\';
    out += c;
  } else {
    if (!in_class) out += negative ? "[^" : "[";
    out += members;
    if (!in_class) out += ']';
  }
  return {};
}

/// Appends the expression, with what means something else in PCRE2 written out. Empty, or why it cannot be.
std::string_view translate(std::string_view pattern, std::string& out) {
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const bool property = (pattern[i + 1] == 'p' || pattern[i + 1] == 'P') && pattern.substr(i + 2, 1) == "{";
      const size_t close = property ? pattern.find('}', i) : std::string_view::npos;
      if (close != std::string_view::npos) {
        append_property(pattern, i + 2, close, in_class, out);
        i = close;
        continue;
      }
      const std::string_view problem = append_escape(pattern[++i], in_class, out);
      if (!problem.empty()) return problem;
      continue;
    }
    out += c;
    if (in_class) {
      // In Oniguruma these combine classes; PCRE2 would take them as characters.
      if (c == '[') return "classes inside classes are not supported";
      if (pattern.substr(i, 2) == "&&") return "&& is not supported";
      if (c == ']') in_class = false;
    } else if (c == '[') {
      in_class = true;
      // A bracket at the beginning of a class is a character of it.
      if (pattern.substr(i + 1, 1) == "^") out += pattern[++i];
      if (pattern.substr(i + 1, 1) == "]") out += pattern[++i];
    }
  }
  return {};
}

}  // namespace

struct RegexScratch::Data final {
  pcre2_match_data* match = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
  uint32_t matches = 0;
  int64_t end_ns = std::numeric_limits<int64_t>::max();  // of the thread's processor time

  /// Each match may be quick and all of them together take hours: a pattern that looks ahead to the end of the text.
  bool time_is_up() {
    constexpr uint32_t kEvery = 16;  // asking the clock costs as much as a few matches
    return ++matches % kEvery == 0 && processor_ns() > end_ns;
  }
  static int64_t processor_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return int64_t{now.tv_sec} * kSecond + now.tv_nsec;
  }
};

void RegexScratch::begin_text(size_t bytes) {
  data_->end_ns = Data::processor_ns() + limits::kRegexNs + static_cast<int64_t>(bytes) * limits::kRegexNsPerByte;
}

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
  const auto refused = [&](std::string_view why) {
    return Error{Errc::kUnsupported, fmt::format("{}: the pattern cannot be compiled: {}", where, why),
                 std::string(where)};
  };
  if (pattern.size() > static_cast<size_t>(limits::kMaxTokenBytes)) return refused("it is too long");
  std::string translated;
  const std::string_view problem = translate(pattern, translated);
  if (!problem.empty()) return refused(problem);
  int code = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_unique<Code>();
  // NEVER_BACKSLASH_C and the missing NO_UTF_CHECK guard against a pattern; the texts are checked before they come
  // here.
  compiled->code =
      pcre2_compile(bytes_of(translated), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT, &code,
                    &offset, nullptr);
  if (compiled->code == nullptr) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(code, message.data(), message.size());
    return refused(fmt::format("{} at byte {}", reinterpret_cast<const char*>(message.data()), offset));
  }
  // Where there is no JIT, pcre2_match interprets.
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  Regex regex(std::move(compiled));
  // A pattern that calls itself where it begins compiles and fails on every text.
  RegexScratch scratch;
  if (const auto tried = regex.find("", 0, scratch); !tried.ok()) return refused(tried.error().message);
  return regex;
}

Result<Regex::Match> Regex::find(std::string_view text, size_t from, RegexScratch& scratch) const {
  RegexScratch::Data& data = *scratch.data_;
  if (data.time_is_up()) return too_long();
  int found = PCRE2_ERROR_NOMATCH;
  // PCRE2 counts no steps of a repeat, so a pattern that runs to the end of the text from each place takes the square
  // of its length. The clock is asked after so many places that a walk from each of them to the end is bounded.
  const size_t places = kStepsBetweenLooks / (text.size() - from + 1) + 1;
  for (size_t at = from;;) {
    size_t last = std::min(at + places, text.size());
    while (last < text.size() && (static_cast<uint8_t>(text[last]) & 0xc0) == 0x80)
      ++last;
    pcre2_set_offset_limit(data.context, last);
    found = match_from(code_->code, text, at, data.match, data.context);
    if (found != PCRE2_ERROR_NOMATCH || last == text.size()) break;
    if (RegexScratch::Data::processor_ns() > data.end_ns) return too_long();
    at = last;
  }
  if (found == PCRE2_ERROR_NOMATCH) return Match{};
  if (found < 0) return error_of(found);
  // Zero says that there were more groups than the one pair of offsets that is kept.
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data.match);
  // \K inside a look-ahead can put the beginning behind the end.
  if (offsets[0] > offsets[1] || offsets[0] < from) {
    return Error{Errc::kUnsupported, "a pattern of the tokenizer moves its match out of order", ""};
  }
  return Match{true, offsets[0], offsets[1]};
}

}  // namespace krait::tokenizer
