// The request core between its groups' sockets, as a machine that is given turns.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/reminder.h"
#include "common/transport/transport.h"
#include "coordinator/requests/request_core.h"

namespace krait::requests {

class CoreLoop final {
 public:
  /// The transport outlives it.
  CoreLoop(CoreOptions options, transport::Transport& transport, const Clock& clock, CoreObserver observer = {});

  /// Connects to every group. Error kIo names the address.
  Status connect();

  /// Takes what has come, says what there is to say. At least every limits::kCoreTickNs.
  void turn();

  RequestCore& core() { return core_; }
  const RequestCore& core() const { return core_; }

 private:
  void take(const transport::Packet& packet);

  const std::vector<std::string> addresses_;
  const std::string name_;
  const std::function<void()> on_bad_message_;
  transport::Transport& transport_;
  const Clock& clock_;
  std::vector<transport::EndpointId> endpoints_;  // one a group
  std::vector<Throttle> bad_messages_;            // the same
  RequestCore core_;
};

}  // namespace krait::requests
