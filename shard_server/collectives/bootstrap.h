// What a leader tells its ranks so that their communicators find each other, as one line of text.
#pragma once

#include <string>

#include "common/base/result.h"

namespace krait::collectives {

/// "tcp:NAME@10.0.0.1:7100", or "shared_memory:NAME" where there is no address.
struct Bootstrap final {
  std::string transport;  // a name in collectives.def
  std::string name;       // Options::name
  std::string address;    // Options::address

  std::string to_text() const;
  /// kProtocol where there is no transport.
  static Result<Bootstrap> parse(const std::string& text);
};

}  // namespace krait::collectives
