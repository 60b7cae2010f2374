// Where jinja2's compiler binds names. A template, a macro and each body with variables of its own is a frame; a name
// that a frame sets before it reads it is that frame's own from the frame's beginning, so a frame inside that reads it
// earlier finds nothing, and not a variable of the conversation.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "coordinator/chat_template/run.h"

namespace krait::chat_template {

/// Names that are undefined when a frame begins, whatever they mean outside.
using HiddenNames = std::vector<NameId>;

/// A name in the order of the source, or the branches of an `if`: body, elif, else.
struct Mention final {
  enum class Kind : uint8_t { kRead, kSet, kGiven, kBranches };
  Kind kind = Kind::kRead;
  NameId name = 0;
  std::vector<std::vector<Mention>> branches;
};

struct Frame final {
  std::vector<Mention> mentions;
  std::deque<Frame> inside;
  std::shared_ptr<HiddenNames> hidden = std::make_shared<HiddenNames>();
};

/// Fills `hidden` of a template's frame and all inside, once all is parsed: a frame may set a name behind those inside.
/// Left out are names that no frame inside reads, because nobody can tell.
void find_hidden(Frame& whole);

}  // namespace krait::chat_template
