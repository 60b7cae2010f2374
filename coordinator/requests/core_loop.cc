#include "coordinator/requests/core_loop.h"

#include <utility>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/wire/codec.h"

namespace krait::requests {

CoreLoop::CoreLoop(CoreOptions options, transport::Transport& transport, const Clock& clock, CoreObserver observer)
    : addresses_(options.addresses),
      name_(options.name),
      on_bad_message_(observer.on_bad_message),
      transport_(transport),
      clock_(clock),
      bad_messages_(addresses_.size()),
      core_(std::move(options), clock, std::move(observer)) {}

Status CoreLoop::connect() {
  for (const auto& address : addresses_) {
    ASSIGN_OR_RETURN(const auto endpoint, transport_.connect(address, name_));
    endpoints_.push_back(endpoint);
  }
  return {};
}

void CoreLoop::take(const transport::Packet& packet) {
  for (size_t group = 0; group < endpoints_.size(); ++group) {
    if (endpoints_[group] != packet.endpoint) continue;
    auto message = wire::decode(packet.bytes);
    if (message.ok()) {
      core_.from_group(group, *std::move(message));
    } else {
      if (on_bad_message_) on_bad_message_();
      if (!bad_messages_[group].due(clock_.now_ns())) continue;
      log_warning("{} message(s) of the group at {} could not be read, the last one for: {}",
                  bad_messages_[group].times(), addresses_[group], to_string(message.error()));
    }
  }
}

void CoreLoop::turn() {
  for (int taken = 0; taken < limits::kMessagesPerTick; ++taken) {
    const auto packet = transport_.receive();
    if (!packet) break;
    take(*packet);
  }
  core_.tick();
  while (const auto out = core_.next_outgoing()) {
    const auto sent = transport_.send(endpoints_[out->group], "", wire::encode(out->message));
    if (!sent.ok()) core_.send_failed(out->group, out->message);
  }
}

}  // namespace krait::requests
