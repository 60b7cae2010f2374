#include "coordinator/chat_template/attributes.h"

#include <fmt/format.h>

#include <algorithm>

#include "coordinator/chat_template/cycler.h"
#include "coordinator/chat_template/loop.h"
#include "coordinator/chat_template/unicode.h"

namespace krait::chat_template {
namespace {

/// Methods that change their container: the sandbox hides them, also before a key of the same name.
bool changes(Kind kind, std::string_view name) {
  static constexpr std::string_view kOfDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::string_view kOfList[] = {"append", "clear",  "extend",  "insert",
                                                 "pop",    "remove", "reverse", "sort"};
  return (kind == Kind::kDict && is_one_of(kOfDict, name)) || (kind == Kind::kList && is_one_of(kOfList, name));
}

/// What Python's values have besides: nothing in its place would be a wrong text.
bool unsupported(Kind kind, std::string_view name) {
  static constexpr std::string_view kOfNumber[] = {
      "real",      "imag",     "numerator",  "denominator", "hex",       "bit_length", "bit_count", "as_integer_ratio",
      "conjugate", "to_bytes", "from_bytes", "fromhex",     "is_integer"};
  static constexpr std::string_view kOfRange[] = {"start", "stop", "step"};
  static constexpr std::string_view kOfView[] = {"mapping", "isdisjoint"};
  static constexpr std::string_view kOfGenerator[] = {"send", "throw", "close"};
  static constexpr std::string_view kOfFunction[] = {"name",   "arguments",       "catch_kwargs", "catch_varargs",
                                                     "caller", "explicit_caller", "sep",          "used"};
  static constexpr std::string_view kOfCycler[] = {"items", "pos"};
  switch (kind) {
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return is_one_of(kOfNumber, name);
    case Kind::kString:
    case Kind::kDict:
      return is_unsupported_method(name);
    case Kind::kRange:
      return is_one_of(kOfRange, name);
    case Kind::kView:
      return is_one_of(kOfView, name);
    case Kind::kGenerator:
      return is_one_of(kOfGenerator, name);
    case Kind::kFunction:
      return is_one_of(kOfFunction, name);
    case Kind::kCycler:
      return is_one_of(kOfCycler, name);
    default:
      return false;
  }
}

Value missing(const Value& object, const AttributeName& name) {
  return Value::undefined(object.is(Kind::kNone) ? name.hint_of_none : name.hint);
}

Value bound(Run& run, const Value& object, Method method) {
  run.budget().take(sizeof(BoundMethod));
  return Value::object(Kind::kFunction, std::make_shared<BoundMethod>(object, method));
}

[[noreturn]] void refuse_undefined(const Value& value) {
  refuse(value.shared() ? value.as_text().bytes : "an undefined value is used");
}

/// The attribute proper, without a look at items; nothing where there is none.
std::optional<Value> own_attribute(Run& run, const Value& object, const AttributeName& name) {
  if (name.hidden) return missing(object, name);
  if (const Method method = method_of(object, name)) return bound(run, object, method);
  if (changes(object.kind(), name.name)) return missing(object, name);
  if (object.is(Kind::kNamespace)) {
    if (const Value* value = object.as<Namespace>().find(name.name)) return *value;
  }
  if (object.is(Kind::kTuple) && object.as<List>().is_group) {
    if (name.name == "grouper") return object.items()[0];
    if (name.name == "list") return object.items()[1];
  }
  if (object.is(Kind::kLoop)) return object.as<Loop>().attribute(name.name);
  if (object.is(Kind::kCycler) && name.name == "current") return object.as<Cycler>().current();
  if (unsupported(object.kind(), name.name)) {
    refuse(fmt::format("the attribute '{}' of {} is not supported", name.name, type_name(object)));
  }
  return std::nullopt;
}

/// An index from the front, or nothing where it is outside.
std::optional<size_t> place(int64_t index, int64_t length) {
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  return static_cast<size_t>(index);
}

Value character(Run& run, const Text& text, int64_t index) {
  // Templates ask for the ends of long texts: those need no count of the whole.
  size_t at = 0;
  run.budget().walk(std::min(text.bytes.size(), static_cast<size_t>(index < 0 ? -(index + 1) : index)));
  if (index >= 0) {
    at = byte_of_code_point(text.bytes, static_cast<size_t>(index));
    if (at >= text.bytes.size()) return Value();
  } else {
    at = text.bytes.size();
    for (; index < 0; ++index) {
      if (at == 0) return Value();
      do {
        --at;
      } while ((static_cast<uint8_t>(text.bytes[at]) & 0xC0) == 0x80);
    }
  }
  TextBuilder out(run.budget());
  out.append(text, at, at + code_point_bytes(text.bytes[at]));
  return Value::text(out.take());
}

struct Slice final {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

/// As Python's slice.indices().
Slice slice_of(const Value& start, const Value& stop, const Value& step, int64_t length) {
  Slice out;
  if (!step.is(Kind::kNone)) out.step = need_int(step, "a slice");
  if (out.step == 0) refuse("a slice's step is zero");
  const bool back = out.step < 0;
  const auto bound_of = [&](const Value& value, int64_t otherwise) {
    if (value.is(Kind::kNone)) return otherwise;
    int64_t at = need_int(value, "a slice");
    if (at < 0) at = std::max<int64_t>(at + length, back ? -1 : 0);
    return std::min(at, back ? length - 1 : length);
  };
  out.start = bound_of(start, back ? length - 1 : 0);
  const int64_t end = bound_of(stop, back ? -1 : length);
  const int64_t distance = back ? out.start - end : end - out.start;
  if (distance > 0) {
    const uint64_t stride = back ? 0 - static_cast<uint64_t>(out.step) : static_cast<uint64_t>(out.step);
    out.count = static_cast<int64_t>((static_cast<uint64_t>(distance) - 1) / stride) + 1;
  }
  return out;
}

Value slice_text(Run& run, const Text& text, const Slice& slice) {
  TextBuilder out(run.budget());
  if (slice.step == 1) {
    const size_t begin = byte_of_code_point(text.bytes, static_cast<size_t>(slice.start));
    const std::string_view rest = std::string_view(text.bytes).substr(begin);
    out.append(text, begin, begin + byte_of_code_point(rest, static_cast<size_t>(slice.count)));
    return Value::text(out.take());
  }
  run.budget().take(text.bytes.size() * sizeof(size_t));
  std::vector<size_t> begins;
  for (size_t at = 0; at < text.bytes.size(); at += code_point_bytes(text.bytes[at]))
    begins.push_back(at);
  for (int64_t i = 0; i < slice.count; ++i) {
    const size_t at = begins[static_cast<size_t>(slice.start + i * slice.step)];
    out.append(text, at, at + code_point_bytes(text.bytes[at]));
  }
  return Value::text(out.take());
}

Value slice_range(Run& run, const Range& range, const Slice& slice, const Value& stop) {
  run.budget().take(sizeof(Range));
  auto out = std::make_shared<Range>();
  const bool back = slice.step < 0;
  int64_t end = stop.is(Kind::kNone) ? (back ? -1 : range.length) : stop.as_int();
  if (!stop.is(Kind::kNone) && end < 0) end = std::max<int64_t>(end + range.length, back ? -1 : 0);
  end = std::min(end, back ? range.length - 1 : range.length);
  out->start = range.at(slice.start);
  out->stop = range.at(end);
  // Beyond 64 bits there is one item at most, and no step is taken.
  out->step = static_cast<int64_t>(static_cast<uint64_t>(range.step) * static_cast<uint64_t>(slice.step));
  out->length = slice.count;
  return Value::object(Kind::kRange, std::move(out));
}

}  // namespace

AttributeName::AttributeName(std::string text)
    : name(std::move(text)),
      hint(std::make_shared<Text>(fmt::format("'{}' is undefined", name), true)),
      hint_of_none(std::make_shared<Text>(fmt::format("'None' has no attribute '{}'", name), true)),
      of_string(find_method(string_methods(), name)),
      of_list(find_method(container_methods(Kind::kList), name)),
      of_tuple(find_method(container_methods(Kind::kTuple), name)),
      of_dict(find_method(container_methods(Kind::kDict), name)),
      of_loop(find_method(loop_methods(), name)),
      of_cycler(find_method(cycler_methods(), name)),
      hidden(name.size() > 4 && name.starts_with("__") && name.ends_with("__")) {}

Method method_of(const Value& object, const AttributeName& name) {
  switch (object.kind()) {
    case Kind::kString:
      return name.of_string;
    case Kind::kList:
      return name.of_list;
    case Kind::kTuple:
    case Kind::kRange:  // the same methods: count and index
      return name.of_tuple;
    case Kind::kDict:
      return name.of_dict;
    case Kind::kLoop:
      return name.of_loop;
    case Kind::kCycler:
      return name.of_cycler;
    default:
      return nullptr;
  }
}

Value get_attribute(Run& run, const Value& object, const AttributeName& name) {
  if (object.is_undefined()) refuse_undefined(object);
  if (object.is(Kind::kDict) && name.of_dict == nullptr && !name.hidden && !changes(Kind::kDict, name.name)) {
    const Value* value = object.as_dict().find(std::string_view(name.name));
    return value != nullptr ? *value : missing(object, name);
  }
  if (auto value = own_attribute(run, object, name)) return *std::move(value);
  return missing(object, name);
}

Value get_own_attribute(Run& run, const Value& object, const AttributeName& name) {
  if (object.is_undefined()) refuse_undefined(object);
  return own_attribute(run, object, name).value_or(missing(object, name));
}

Value get_item(Run& run, const Value& object, const Value& index) {
  walk(run.budget(), index);
  if (object.is_undefined()) refuse_undefined(object);
  switch (object.kind()) {
    case Kind::kDict: {
      const bool hashable = !index.is(Kind::kList) && !index.is(Kind::kDict) && !index.is(Kind::kView);
      if (const Value* value = hashable ? object.as_dict().find(index) : nullptr) return *value;
      break;
    }
    case Kind::kString:
      if (index.is_whole()) return character(run, object.as_text(), index.as_int());
      break;
    case Kind::kList:
    case Kind::kTuple:
      if (!index.is_whole()) break;
      if (const auto at = place(index.as_int(), static_cast<int64_t>(object.items().size())))
        return object.items()[*at];
      break;
    case Kind::kRange:
      if (!index.is_whole()) break;
      if (const auto at = place(index.as_int(), object.as<Range>().length)) {
        return Value::integer(object.as<Range>().at(static_cast<int64_t>(*at)));
      }
      break;
    default:
      break;
  }
  if (!index.is_string()) return Value();
  const AttributeName name(index.bytes());
  if (auto value = own_attribute(run, object, name)) return *std::move(value);
  return missing(object, name);
}

Value get_slice(Run& run, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) refuse_undefined(object);
  const bool has_slices = object.is_string() || object.is_sequence() || object.is(Kind::kRange);
  if (!has_slices) refuse(fmt::format("{} has no slices", type_name(object)));
  walk(run.budget(), object);
  const Slice slice = slice_of(start, stop, step, *length_of(object));
  if (object.is_string()) return slice_text(run, object.as_text(), slice);
  if (object.is(Kind::kRange)) return slice_range(run, object.as<Range>(), slice, stop);
  run.budget().take(static_cast<size_t>(slice.count) * sizeof(Value));
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(slice.count));
  for (int64_t i = 0; i < slice.count; ++i)
    items.push_back(object.items()[static_cast<size_t>(slice.start + i * slice.step)]);
  return object.is(Kind::kList) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

}  // namespace krait::chat_template
