// How the pieces of one choice are written: each endpoint has its form.
#pragma once

#include <cstddef>
#include <string>

#include "coordinator/requests/generation.h"

namespace krait::api {

class ChoiceForm {
 public:
  virtual ~ChoiceForm() = default;

  virtual void add(const requests::OutputChunk& chunk) = 0;
  /// Whether a piece would say anything.
  virtual bool has_news() const = 0;
  /// Whether the next piece tells of the prompt, by echo: it may be large, and comes as fast as the prompt is read.
  virtual bool tells_of_prompt() const = 0;
  /// Bytes that the next piece will take, roughly.
  virtual size_t size() const = 0;
  /// A choice object, as JSON text, with what was added since the last call.
  virtual std::string take() = 0;
};

}  // namespace krait::api
