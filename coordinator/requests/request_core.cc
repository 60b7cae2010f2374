#include "coordinator/requests/request_core.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/may_retry.h"
#include "common/base/units.h"
#include "coordinator/routing/choose_group.h"

namespace krait::requests {

RequestCore::RequestCore(CoreOptions options, const Clock& clock, CoreObserver observer)
    : options_(std::move(options)), clock_(clock), observer_(std::move(observer)) {
  for (const auto& name : options_.groups)
    groups_.push_back({.name = name});
  for (size_t group = 0; group < groups_.size(); ++group) {
    send(group, wire::Hello{wire::kProtocolVersion, options_.incarnation, options_.name});
  }
  last_heartbeat_ns_ = clock_.now_ns();
  last_turn_ns_ = last_heartbeat_ns_;
}

std::optional<GroupMessage> RequestCore::next_outgoing() {
  while (!outgoing_.empty()) {
    Outgoing out = std::move(outgoing_.front());
    outgoing_.pop_front();
    if (auto* message = std::get_if<wire::Message>(&out.what)) return GroupMessage{out.group, std::move(*message)};
    const auto& unsent = std::get<Unsent>(out.what);
    const auto found = sequences_.find(unsent.number);
    if (found == sequences_.end()) continue;  // it is over before it began
    found->second.sent = true;
    wire::Submit submit = unsent.spec->submit(found->second.index);
    submit.request = unsent.number;
    return GroupMessage{out.group, std::move(submit)};
  }
  return std::nullopt;
}

std::vector<GroupSnapshot> RequestCore::groups() const {
  std::vector<GroupSnapshot> snapshots;
  for (const Group& group : groups_) {
    snapshots.push_back({group.name, group.connected, group.serves(), group.last_heard_ns, group.status,
                         static_cast<uint32_t>(group.open.size())});
  }
  return snapshots;
}

Result<size_t> RequestCore::choose_group(const std::string& model) const {
  std::vector<routing::Candidate> candidates;
  for (const Group& group : groups_) {
    candidates.push_back({group.status.model, group.serves(), group.status.backlog_seconds, group.open.size()});
  }
  return routing::choose_group(candidates, model);
}

void RequestCore::submit(RequestId id, GenerationSpec spec, std::shared_ptr<GenerationSink> sink) {
  CHECK_GT(spec.sequences(), 0u);
  notice_pause();
  const auto group = choose_group(spec.model);
  if (draining_ || !group.ok()) {
    const Error error = draining_ ? Error{Errc::kUnavailable, "the server is shutting down", ""} : group.error();
    sink->on_error(error, 1);
    return;
  }
  const int64_t now_ns = clock_.now_ns();
  if (spec.timeout_ms <= 0) spec.timeout_ms = options_.default_timeout_ms;
  Request& request = requests_[id];
  request.sink = std::move(sink);
  request.submitted_ns = now_ns;
  request.deadline_ns = now_ns + spec.timeout_ms * kMs;
  deadlines_.emplace(request.deadline_ns, id);
  const auto shared = std::make_shared<const SharedSpec>(spec.shared);
  const auto all = std::make_shared<const GenerationSpec>(std::move(spec));
  for (size_t index = 0; index < all->sequences(); ++index) {
    const uint64_t number = next_number_++;
    const auto prompt_tokens = static_cast<uint32_t>(all->prompts[index / all->n].tokens.size());
    const uint32_t to_score = shared->sampling.prompt_logprobs ? prompt_tokens - 1 : 0;
    sequences_.emplace(number, Sequence{id, index, *group, prompt_tokens, 0, to_score, 0, false, now_ns, 0,
                                        SequenceOutput(options_.tokenizer, shared)});
    groups_[*group].open.insert(number);
    groups_[*group].unanswered.insert(number);
    request.sequences.push_back(number);
    outgoing_.push_back({*group, Unsent{number, all}});
  }
}

void RequestCore::abandon(RequestId id, wire::FinishReason reason) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  for (const uint64_t number : found->second.sequences) {
    const Sequence& sequence = sequences_.at(number);
    if (sequence.sent) send(sequence.group, wire::Cancel{number, sequence.received});
    if (observer_.on_sequence_end) observer_.on_sequence_end({reason, sequence.prompt_tokens, sequence.received});
    forget_sequence(number);
  }
  deadlines_.erase({found->second.deadline_ns, id});
  requests_.erase(found);
}

void RequestCore::fail(RequestId id, const Error& error, uint32_t retry_after_s) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  const auto sink = found->second.sink;
  const bool late = error.code == Errc::kDeadlineExceeded;
  abandon(id, late ? wire::FinishReason::kDeadline : wire::FinishReason::kError);
  sink->on_error(error, retry_after_s);
}

void RequestCore::from_group(size_t group, wire::Message message) {
  CHECK_LT(group, groups_.size());
  notice_pause();
  if (is_late_news(groups_[group])) return;
  groups_[group].last_heard_ns = clock_.now_ns();
  if (auto* status = std::get_if<wire::Status>(&message)) on(group, std::move(*status));
  if (auto* accepted = std::get_if<wire::Accepted>(&message)) on(group, std::move(*accepted));
  if (auto* tokens = std::get_if<wire::Tokens>(&message)) on(group, std::move(*tokens));
  if (const auto* finished = std::get_if<wire::Finished>(&message)) on(group, *finished);
  if (const auto* rejected = std::get_if<wire::Rejected>(&message)) on(group, *rejected);
}

void RequestCore::notice_pause() {
  const int64_t now_ns = clock_.now_ns();
  const int64_t pause_ns = now_ns - std::exchange(last_turn_ns_, now_ns);
  if (pause_ns <= limits::kPeerTimeoutNs) return;
  // The leaders have given this coordinator up.
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (groups_[group].connected) lose_group(group, "this coordinator did not run for a while");
    groups_[group].lost_touch = true;
  }
}

bool RequestCore::is_late_news(Group& group) const {
  // What was said while nothing was delivered arrives first and at once, and tells of times gone by: a group that
  // served then. The leader answers a new Hello.
  const int64_t now_ns = clock_.now_ns();
  if (std::exchange(group.lost_touch, false)) group.deaf_until_ns = now_ns + limits::kHeartbeatNs;
  return now_ns < group.deaf_until_ns;
}

void RequestCore::check_model(wire::Status& status) const {
  const bool named_so = options_.model.empty() || status.model == options_.model;
  const bool holds_it = options_.fingerprint.empty() || status.fingerprint == options_.fingerprint;
  if (named_so && holds_it) return;
  // Its tokens would mean something else here than there.
  status.state = wire::GroupState::kFailed;
  status.detail = named_so ? "the group holds another checkpoint than this coordinator"
                           : fmt::format("the group serves '{}', this coordinator '{}'", status.model, options_.model);
}

void RequestCore::on(size_t index, wire::Status status) {
  check_model(status);
  Group& group = groups_[index];
  const bool restarted = group.status.incarnation != 0 && group.status.incarnation != status.incarnation;
  if (restarted) lose_group(index, "the group's leader restarted");
  group.connected = true;
  group.status = std::move(status);
  const auto state = group.status.state;
  if (state != wire::GroupState::kServing && state != wire::GroupState::kDraining && !group.open.empty()) {
    lose_group(index, group.status.detail.empty() ? "the group stopped serving" : group.status.detail);
    group.connected = true;
  }
}

void RequestCore::on(size_t group, wire::Accepted accepted) {
  const auto found = sequences_.find(accepted.request);
  if (found == sequences_.end() || found->second.group != group) return;
  groups_[group].unanswered.erase(accepted.request);
  OutputChunk chunk;
  chunk.sequence = found->second.index;
  chunk.numerics_id = std::move(accepted.numerics_id);
  requests_.at(found->second.request).sink->on_chunk(std::move(chunk));
}

void RequestCore::on(size_t group, wire::Tokens tokens) {
  for (auto& chunk : tokens.chunks)
    take_chunk(group, std::move(chunk));
}

void RequestCore::take_chunk(size_t group, wire::TokenChunk chunk) {
  const auto found = sequences_.find(chunk.request);
  if (found == sequences_.end() || found->second.group != group) return;  // cancelled meanwhile
  Sequence& sequence = found->second;
  const bool gap = (!chunk.tokens.empty() && chunk.first_index != sequence.received) ||
                   (!chunk.prompt_logprobs.empty() && chunk.first_position != sequence.scored + 1);
  if (gap) {
    fail(sequence.request, Error{Errc::kInternal, "tokens were lost between the group and the coordinator", ""});
    return;
  }
  OutputChunk output;
  output.sequence = sequence.index;
  output.first_prompt_position = chunk.first_position;
  sequence.scored += static_cast<uint32_t>(chunk.prompt_logprobs.size());
  output.prompt_logprobs = std::move(chunk.prompt_logprobs);
  SequenceOutput::Piece piece;
  for (auto& token : chunk.tokens) {
    ++sequence.received;
    // A stop token ends the sequence and has no text; Finished follows.
    if (!sequence.output.is_stop_token(token.token)) piece = sequence.output.push(token.token);
    output.text += piece.text;
    output.tokens.push_back(std::move(token));
    if (piece.stopped) break;
    piece = {};
  }
  if (!output.tokens.empty()) {
    const int64_t now_ns = clock_.now_ns();
    if (sequence.last_token_ns == 0 && observer_.on_first_token) {
      observer_.on_first_token(now_ns - sequence.submitted_ns);
    } else if (sequence.last_token_ns != 0 && observer_.on_inter_token) {
      observer_.on_inter_token((now_ns - sequence.last_token_ns) / static_cast<int64_t>(output.tokens.size()));
    }
    sequence.last_token_ns = now_ns;
  }
  if (!piece.stopped) {
    requests_.at(sequence.request).sink->on_chunk(std::move(output));
    return;
  }
  send(group, wire::Cancel{found->first, sequence.received});
  output.end = SequenceEnd{EndReason::kStop, piece.stop_string, sequence.received, 0};
  if (observer_.on_sequence_end) {
    observer_.on_sequence_end({wire::FinishReason::kStop, sequence.prompt_tokens, sequence.received});
  }
  finish(found->first, std::move(output));
}

void RequestCore::on(size_t group, const wire::Finished& finished) {
  const auto found = sequences_.find(finished.request);
  if (found == sequences_.end() || found->second.group != group) return;
  const RequestId id = found->second.request;
  switch (finished.reason) {
    case wire::FinishReason::kStop:
    case wire::FinishReason::kLength:
      if (finished.generated != found->second.received || found->second.scored != found->second.to_score) {
        fail(id, Error{Errc::kInternal, "tokens were lost between the group and the coordinator", ""});
        return;
      }
      end_sequence(finished.request, finished);
      return;
    case wire::FinishReason::kDeadline:
      fail(id, Error{Errc::kDeadlineExceeded, "the request ran into its time limit", ""});
      return;
    case wire::FinishReason::kCancelled:
      fail(id, Error{Errc::kUnavailable, "the group cancelled the request", ""}, 1);
      return;
    case wire::FinishReason::kError:
      fail(id, finished.error, may_retry(finished.error.code) ? 1 : 0);
      return;
  }
}

void RequestCore::end_sequence(uint64_t number, const wire::Finished& finished) {
  Sequence& sequence = sequences_.at(number);
  OutputChunk last;
  last.sequence = sequence.index;
  auto piece = sequence.output.flush();
  last.text = std::move(piece.text);
  SequenceEnd end;
  end.reason = finished.reason == wire::FinishReason::kLength ? EndReason::kLength : EndReason::kStop;
  if (piece.stopped) {
    end.reason = EndReason::kStop;
    end.stop_string = piece.stop_string;
  }
  end.generated = sequence.received;
  end.cached_tokens = finished.cached_tokens;
  last.end = std::move(end);
  if (observer_.on_sequence_end) {
    observer_.on_sequence_end({finished.reason, sequence.prompt_tokens, sequence.received, true, finished.queue_us,
                               finished.prefill_us, finished.decode_us});
  }
  finish(number, std::move(last));
}

void RequestCore::finish(uint64_t number, OutputChunk last) {
  const RequestId id = sequences_.at(number).request;
  forget_sequence(number);
  Request& request = requests_.at(id);
  std::erase(request.sequences, number);
  const auto sink = request.sink;
  if (request.sequences.empty()) {
    if (observer_.on_request_end) observer_.on_request_end(clock_.now_ns() - request.submitted_ns);
    deadlines_.erase({request.deadline_ns, id});
    requests_.erase(id);
  }
  sink->on_chunk(std::move(last));
}

void RequestCore::forget_sequence(uint64_t number) {
  Group& group = groups_[sequences_.at(number).group];
  group.open.erase(number);
  group.unanswered.erase(number);
  sequences_.erase(number);
}

void RequestCore::on(size_t group, const wire::Rejected& rejected) {
  const auto found = sequences_.find(rejected.request);
  if (found == sequences_.end() || found->second.group != group) return;
  refuse(found->first, rejected.error, rejected.retry_after_s);
}

/// The sequence never began, and the others of its request go with it.
void RequestCore::refuse(uint64_t number, const Error& error, uint32_t retry_after_s) {
  const RequestId id = sequences_.at(number).request;
  std::erase(requests_.at(id).sequences, number);
  forget_sequence(number);
  fail(id, error, retry_after_s);
}

void RequestCore::send_failed(size_t group, const wire::Message& message) {
  // Heartbeats notice a dead group. A request that did not go out must not wait for that.
  if (const auto* submit = std::get_if<wire::Submit>(&message)) {
    const auto found = sequences_.find(submit->request);
    if (found == sequences_.end()) return;
    refuse(found->first, Error{Errc::kUnavailable, fmt::format("group {} takes no messages", groups_[group].name), ""},
           1);
  } else if (const auto* cancel = std::get_if<wire::Cancel>(&message)) {
    // Unsaid, the sequence would hold its slot to its last token. A group that is lost forgets it by itself.
    if (groups_[group].connected) groups_[group].unsent_cancels.push_back(*cancel);
  }
}

void RequestCore::lose_group(size_t index, const std::string& why) {
  Group& group = groups_[index];
  group.connected = false;
  group.status.state = wire::GroupState::kWaiting;
  group.unsent_cancels.clear();
  std::set<RequestId> lost;
  for (const uint64_t number : group.open)
    lost.insert(sequences_.at(number).request);
  for (const RequestId id : lost) {
    fail(id, Error{Errc::kUnavailable, fmt::format("group {} was lost: {}", group.name, why), ""}, 1);
  }
}

/// A leader answers a Submit as it reads it, behind what else waits there. If it says nothing, the Submit or its answer
/// was lost on the way.
void RequestCore::fail_unanswered(size_t index) {
  Group& group = groups_[index];
  while (!group.unanswered.empty()) {
    const Sequence& oldest = sequences_.at(*group.unanswered.begin());
    if (clock_.now_ns() - oldest.submitted_ns <= limits::kAnswerTimeoutNs) return;
    fail(oldest.request, Error{Errc::kUnavailable, fmt::format("group {} did not answer", group.name), ""}, 1);
  }
}

void RequestCore::fail_all(const Error& error) {
  while (!requests_.empty())
    fail(requests_.begin()->first, error);
}

void RequestCore::tick() {
  notice_pause();
  const int64_t now_ns = clock_.now_ns();
  if (now_ns - last_heartbeat_ns_ >= limits::kHeartbeatNs) {
    last_heartbeat_ns_ = now_ns;
    for (size_t group = 0; group < groups_.size(); ++group) {
      // A Hello is answered with a Status, so a leader that came up meanwhile is found by the next one.
      send(group, groups_[group].connected ? wire::Message(wire::Heartbeat{options_.incarnation})
                                           : wire::Hello{wire::kProtocolVersion, options_.incarnation, options_.name});
    }
  }
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (groups_[group].connected && now_ns - groups_[group].last_heard_ns > limits::kPeerTimeoutNs) {
      lose_group(group, "its leader is silent");
      groups_[group].lost_touch = true;
    }
    fail_unanswered(group);
  }
  for (size_t group = 0; group < groups_.size(); ++group) {
    for (const auto& cancel : std::exchange(groups_[group].unsent_cancels, {}))
      send(group, cancel);
  }
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ns) {
    fail(deadlines_.begin()->second, Error{Errc::kDeadlineExceeded, "the request ran into its time limit", ""});
  }
}

}  // namespace krait::requests
