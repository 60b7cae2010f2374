// Operating errors as values: Result<T> holds a T or an Error whose code maps to one HTTP status and one metric label.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "common/base/check.h"

namespace krait {

enum class Errc : uint8_t {
#define ERROR(name, label, http_status, openai_type) name,
#include "common/base/errors.def"
#undef ERROR
};

/// What one row of errors.def says about a code.
struct ErrcInfo final {
  std::string_view label;        // metric label and log word
  int http_status = 500;         // the one HTTP status it is answered with
  std::string_view openai_type;  // "type" in OpenAI's error object
};

/// The row of `code`; `is_errc` tells whether a number read from a wire is one.
const ErrcInfo& errc_info(Errc code);
bool is_errc(uint8_t number);

/// An operating error: what went wrong, for a person, and the request field, file or tensor it is about.
struct Error final {
  Errc code = Errc::kInternal;
  std::string message;
  std::string param;  // request field, file or tensor; empty when none is to blame

  friend bool operator==(const Error&, const Error&) = default;
};

/// "label: message (param)", for logs and last words.
std::string to_string(const Error& error);

/// A T or an Error. Result<void> is Status below.
template <class T>
class [[nodiscard]] Result final {
 public:
  Result(T value) : value_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : value_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    check_ok();
    return *std::get_if<0>(&value_);
  }
  const T& value() const& {
    check_ok();
    return *std::get_if<0>(&value_);
  }
  T&& value() && {
    check_ok();
    return std::move(*std::get_if<0>(&value_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    CHECK(!ok());
    return *std::get_if<1>(&value_);
  }

 private:
  void check_ok() const {
    if (!ok()) [[unlikely]]
      check_failed(__FILE__, __LINE__, "Result::ok()", to_string(*std::get_if<1>(&value_)));
  }

  std::variant<T, Error> value_;
};

template <>
class [[nodiscard]] Result<void> final {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const {
    CHECK(!ok_);
    return error_;
  }

 private:
  Error error_;
  bool ok_ = true;
};

using Status = Result<void>;

}  // namespace krait

#define KRAIT_CONCAT_INNER(a, b) a##b
#define KRAIT_CONCAT(a, b) KRAIT_CONCAT_INNER(a, b)

/// Leaves the function with the error of `expression` (a Status or Result), if it has one.
#define RETURN_IF_ERROR(expression)                \
  do {                                             \
    auto&& return_if_error_status = (expression);  \
    if (!return_if_error_status.ok()) [[unlikely]] \
      return return_if_error_status.error();       \
  } while (false)

/// ASSIGN_OR_RETURN(auto x, f()): x is the value of f(), or the function ends with its error.
#define ASSIGN_OR_RETURN(left, expression) ASSIGN_OR_RETURN_INNER(KRAIT_CONCAT(result_, __LINE__), left, expression)
#define ASSIGN_OR_RETURN_INNER(name, left, expression) \
  auto name = (expression);                            \
  if (!name.ok()) [[unlikely]]                         \
    return name.error();                               \
  left = std::move(name).value()
