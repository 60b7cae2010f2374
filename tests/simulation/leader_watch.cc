#include "tests/simulation/leader_watch.h"

#include <utility>

#include "common/wire/codec.h"

namespace krait::simulation {

void LeaderWatch::wrong(const Key& key, std::string_view what) {
  record_.wrong(fmt::format("{}: request {} of {} {}", name_, key.second, key.first, what));
}

void LeaderWatch::close(Sequence& sequence) {
  if (sequence.closed_turn == 0) sequence.closed_turn = turn_;
}

void LeaderWatch::forget(const std::string& peer) {
  for (auto& [key, sequence] : sequences_) {
    if (key.first != peer) continue;
    sequence.state = State::kEnded;
    sequence.unanswered = 0;
    close(sequence);
  }
}

void LeaderWatch::received(const std::string& peer, const wire::Message& message) {
  const auto* hello = std::get_if<wire::Hello>(&message);
  const auto* heartbeat = std::get_if<wire::Heartbeat>(&message);
  if (hello != nullptr || heartbeat != nullptr) {
    const uint64_t incarnation = hello != nullptr ? hello->incarnation : heartbeat->incarnation;
    auto& known = incarnations_[peer];
    if (known != 0 && known != incarnation) forget(peer);
    known = incarnation;
  } else if (const auto* submit = std::get_if<wire::Submit>(&message)) {
    const Key key{peer, submit->request};
    Sequence& sequence = sequences_[key];
    ++sequence.unanswered;
    // A request that comes again after its end runs again, and nobody listens.
    if (sequence.state == State::kEnded) sequence.closed_turn = 0;
    sequence.noise = {submit->sampling.seed, submit->sampling.choice};
    by_noise_[sequence.noise] = key;
  } else if (const auto* cancel = std::get_if<wire::Cancel>(&message)) {
    const auto found = sequences_.find({peer, cancel->request});
    if (found != sequences_.end() && found->second.state == State::kAccepted) close(found->second);
  }
}

void LeaderWatch::sent_tokens(const std::string& peer, const wire::Tokens& tokens) {
  for (const auto& chunk : tokens.chunks) {
    const Key key{peer, chunk.request};
    const Sequence& sequence = sequences_[key];
    if (sequence.state != State::kAccepted) wrong(key, "gets tokens and is not open");
    if (closed_before(sequence)) wrong(key, "gets tokens after its cancel");
  }
}

void LeaderWatch::sent(const std::string& peer, const wire::Message& message) {
  if (const auto* accepted = std::get_if<wire::Accepted>(&message)) {
    Sequence& sequence = sequences_[{peer, accepted->request}];
    if (sequence.state == State::kAccepted || sequence.unanswered == 0)
      wrong({peer, accepted->request}, "is accepted twice");
    --sequence.unanswered;
    sequence.state = State::kAccepted;
  } else if (const auto* tokens = std::get_if<wire::Tokens>(&message)) {
    sent_tokens(peer, *tokens);
  } else if (const auto* finished = std::get_if<wire::Finished>(&message)) {
    Sequence& sequence = sequences_[{peer, finished->request}];
    if (sequence.state != State::kAccepted) wrong({peer, finished->request}, "is finished and was not open");
    sequence.state = State::kEnded;
    close(sequence);
  } else if (const auto* rejected = std::get_if<wire::Rejected>(&message)) {
    --sequences_[{peer, rejected->request}].unanswered;
  }
}

void LeaderWatch::commanded(const wire::Message& command) {
  if (std::holds_alternative<wire::Form>(command)) slots_.clear();
  if (const auto* step = std::get_if<wire::Step>(&command)) planned(*step);
}

void LeaderWatch::planned(const wire::Step& step) {
  for (const auto& admission : step.admissions)
    slots_[admission.slot] = {admission.sampling.seed, admission.sampling.choice};
  for (const auto& run : step.runs) {
    const auto noise = slots_.find(run.sequence_slot);
    if (noise == slots_.end() || !by_noise_.contains(noise->second)) {
      record_.wrong(
          fmt::format("{}: step {} runs slot {}, which nobody was given", name_, step.step, run.sequence_slot));
      continue;
    }
    const Key& key = by_noise_.at(noise->second);
    if (closed_before(sequences_[key])) wrong(key, "is in a plan made after its end or cancel");
  }
}

void LeaderWatch::check_quiet() {
  for (const auto& [key, sequence] : sequences_) {
    if (sequence.state == State::kAccepted) wrong(key, "was accepted and never ended");
  }
}

Status WatchedTransport::send(transport::EndpointId endpoint, const std::string& peer, std::vector<std::byte> bytes) {
  if (endpoint == coordinators_) {
    const auto message = wire::decode(bytes);
    if (message.ok()) watch_.sent(peer, message.value());
  }
  return inner_->send(endpoint, peer, std::move(bytes));
}

std::optional<transport::Packet> WatchedTransport::receive() {
  auto packet = inner_->receive();
  if (packet && packet->endpoint == coordinators_) {
    const auto message = wire::decode(packet->bytes);
    if (message.ok()) watch_.received(packet->peer, message.value());
  }
  return packet;
}

}  // namespace krait::simulation
