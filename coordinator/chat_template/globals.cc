// The functions that every template has.
#include <ctime>

#include "coordinator/chat_template/cycler.h"
#include "coordinator/chat_template/python_text.h"
#include "coordinator/chat_template/run.h"

namespace krait::chat_template {
namespace {

constexpr int64_t kMaxRange = 100'000;  // as jinja2's sandbox bounds it

Value range(Run& run, const Arguments& arguments) {
  const Parameters given(arguments, "range", {"", "", ""}, 1);
  run.budget().take(sizeof(Range));
  auto out = std::make_shared<Range>();
  const bool only_stop = given.at(1) == nullptr;
  out->start = only_stop ? 0 : need_int(given.needed(0), "range");
  out->stop = need_int(given.needed(only_stop ? 0 : 1), "range");
  out->step = given.integer(2, 1);
  if (out->step == 0) refuse("range: the step is zero");
  const bool back = out->step < 0;
  const auto low = static_cast<uint64_t>(back ? out->stop : out->start);
  const auto high = static_cast<uint64_t>(back ? out->start : out->stop);
  const bool any = back ? out->stop < out->start : out->start < out->stop;
  const uint64_t stride = back ? 0 - static_cast<uint64_t>(out->step) : static_cast<uint64_t>(out->step);
  const uint64_t length = any ? (high - low - 1) / stride + 1 : 0;
  if (length > static_cast<uint64_t>(kMaxRange)) refuse("range: more than 100000 numbers");
  out->length = static_cast<int64_t>(length);
  return Value::object(Kind::kRange, std::move(out));
}

void add_pairs(Run& run, Dict& dict, const Value& from) {
  run.budget().take(sizeof(Dict));
  if (from.is(Kind::kDict)) {
    for (const auto& [key, value] : from.as_dict().entries) {
      run.budget().take(2 * sizeof(Value));
      dict.set(key, value);
    }
    return;
  }
  Cursor cursor(run.budget(), from);
  for (Value item; cursor.next(item);) {
    auto pair = collect(run.budget(), item);
    if (pair.size() != 2) refuse("dict: an item is no pair");
    walk(run.budget(), pair[0]);
    dict.set(std::move(pair[0]), std::move(pair[1]));
  }
}

std::shared_ptr<Dict> make_dict(Run& run, const Arguments& arguments) {
  if (arguments.positional.size() > 1) refuse("dict: one argument at most");
  auto dict = std::make_shared<Dict>();
  if (!arguments.positional.empty()) add_pairs(run, *dict, arguments.positional[0]);
  for (const auto& [name, value] : arguments.named) {
    run.budget().take(name.size() + 2 * sizeof(Value));
    dict->set(Value::string(name, true), value);
  }
  return dict;
}

Value dict(Run& run, const Arguments& arguments) {
  return Value::dict(make_dict(run, arguments));
}

Value make_namespace(Run& run, const Arguments& arguments) {
  Value out = run.make_namespace();
  const auto given = make_dict(run, arguments);
  for (const auto& [key, value] : given->entries) {
    if (!key.is_string()) refuse("namespace: a name must be a string");
    out.as<Namespace>().set(key.bytes(), value);
  }
  return out;
}

[[noreturn]] Value raise_exception(Run& run, const Arguments& arguments) {
  const Parameters given(arguments, "raise_exception", {"message"}, 1);
  throw RenderError{to_text(run.budget(), given.needed(0)).bytes(), true};
}

/// The local time, as datetime.now().strftime() writes it: a time without a zone.
Value strftime_now(Run& run, const Arguments& arguments) {
  constexpr size_t kMaxFormat = 1000;
  const Parameters given(arguments, "strftime_now", {"format"}, 1);
  const Text& given_format = need_text(given.needed(0), "strftime_now");
  const std::string& format = given_format.bytes;
  if (format.size() > kMaxFormat) refuse("strftime_now: the format is too long");
  std::string plain;
  for (size_t i = 0; i < format.size(); ++i) {
    const char next = format[i] == '%' && i + 1 < format.size() ? format[i + 1] : '\0';
    if (next == '\0') {
      plain += format[i] == '%' ? "%%" : std::string(1, format[i]);
      continue;
    }
    ++i;
    if (next == 'f') {
      plain += "000000";
    } else if (next != 'z' && next != 'Z') {
      plain += {'%', next};
    }
  }
  const auto now = static_cast<std::time_t>(run.now_s());
  std::tm local{};
  localtime_r(&now, &local);
  std::string out(32 * (plain.size() + 1), '\0');
  out.resize(std::strftime(out.data(), out.size(), plain.c_str(), &local));
  return Value::string(std::move(out), given_format.untrusted.empty());
}

struct Row final {
  std::string_view name;
  Builtin::Body body = nullptr;
};

constexpr Row kRows[] = {
    {"range", range},
    {"dict", dict},
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
    {"cycler", make_cycler},
    {"joiner", make_joiner},
};

}  // namespace

Builtin::Body find_global(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.body;
  }
  return nullptr;
}

}  // namespace krait::chat_template
