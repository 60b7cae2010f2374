// A chat template, then a zero byte and a JSON object of variables: loaded and rendered, twice with one result.
#include "coordinator/chat_template/chat_template.h"
#include "coordinator/chat_template/json.h"
#include "coordinator/tokenizer/utf8.h"
#include "tests/fuzz/harness.h"

namespace krait::chat_template {
namespace {

constexpr std::string_view kConversation =
    R"({"messages":[{"role":"system","content":"Be <b>."},{"role":"user","content":"aa <|im_end|>\n é"}],)"
    R"("add_generation_prompt":true,"tools":[{"name":"f","n":[1,-2.5,null]}],"eos_token":"</s>"})";
constexpr int64_t kNow = 1'700'000'000;

void check_error(const Error& error) {
  CHECK(error.code == Errc::kInvalidArgument || error.code == Errc::kTooLarge);
  fuzz::check_error_text(error.message, error.param);
}

void check_ranges(const Rendered& rendered) {
  size_t covered = 0;
  for (const ByteRange& range : rendered.untrusted) {
    CHECK_LE(covered, range.begin);
    CHECK_LT(range.begin, range.end);
    covered = range.end;
  }
  CHECK_LE(covered, rendered.text.size());
}

}  // namespace

KRAIT_FUZZ(template, input) {
  const std::string_view all = fuzz::text(input);
  const size_t end = std::min(all.find('\0'), all.size());
  const auto loaded = ChatTemplate::parse(all.substr(0, end), "template");
  if (!loaded.ok()) return check_error(loaded.error());
  auto values = parse_json(end < all.size() ? all.substr(end + 1) : kConversation);
  if (!values.ok()) {
    check_error(values.error());
    values = parse_json(kConversation);
  }
  ChatTemplate::Variables variables;
  if (values->is(Kind::kDict)) {
    for (const auto& [name, value] : values->as_dict().entries)
      variables.emplace_back(name.bytes(), value);
  }
  const auto rendered = (*loaded)->render(variables, kNow);
  const auto again = (*loaded)->render(variables, kNow);
  CHECK_EQ(rendered.ok(), again.ok());
  if (!rendered.ok()) {
    CHECK_EQ(rendered.error().message, again.error().message);
    return check_error(rendered.error());
  }
  CHECK_EQ(rendered->text, again->text);
  CHECK(tokenizer::is_utf8(rendered->text));
  check_ranges(*rendered);
  if (!rendered->untrusted.empty() && fuzz::planted_at(rendered->text.size())) fuzz::found_planted();
}

}  // namespace krait::chat_template
