#include "tests/simulation/client.h"

#include "tests/simulation/token_function.h"

namespace krait::simulation {

Client::Client(std::string name, const requests::GenerationSpec& spec, int64_t deadline_ns, const Clock& clock,
               Record& record)
    : name_(std::move(name)), deadline_ns_(deadline_ns), clock_(clock), record_(record) {
  for (size_t i = 0; i < spec.sequences(); ++i) {
    const wire::Submit asked = spec.submit(i);
    Sequence& sequence = sequences_.emplace_back();
    sequence.answer = answer_of(asked.tokens, asked.max_tokens, asked.sampling);
    if (asked.sampling.prompt_logprobs) sequence.scores = scores_of(asked.tokens);
    sequence.prompt = asked.tokens;
    const auto& stops = asked.sampling.stop_ids;
    sequence.may_stop =
        !sequence.answer.empty() && std::binary_search(stops.begin(), stops.end(), sequence.answer.back());
  }
}

void Client::wrong(const std::string& what) {
  record_.wrong(fmt::format("{}: {}", name_, what));
}

void Client::on_chunk(requests::OutputChunk chunk) {
  if (gone_) return wrong("news after it has gone");
  if (error_) return wrong("news after an error");
  if (chunk.sequence >= sequences_.size()) return wrong("news of a sequence that it has not");
  Sequence& sequence = sequences_[chunk.sequence];
  if (sequence.ended) return wrong("news after the end");
  take_scores(sequence, chunk);
  for (const auto& token : chunk.tokens) {
    if (sequence.received >= sequence.answer.size()) return wrong("more tokens than the answer has");
    if (token.token != sequence.answer[sequence.received])
      return wrong(fmt::format("token {} of sequence {} is {} and should be {}", sequence.received, chunk.sequence,
                               token.token, sequence.answer[sequence.received]));
    ++sequence.received;
  }
  if (chunk.end) take_end(sequence, *chunk.end);
}

void Client::take_scores(Sequence& sequence, const requests::OutputChunk& chunk) {
  if (chunk.prompt_logprobs.empty()) return;
  if (chunk.first_prompt_position != sequence.scored + 1) return wrong("scores do not follow each other");
  for (const auto& token : chunk.prompt_logprobs) {
    if (sequence.scored >= sequence.scores.size()) return wrong("more scores than the prompt has tokens");
    if (token.token != sequence.prompt[sequence.scored + 1] || token.logprob != sequence.scores[sequence.scored])
      return wrong(fmt::format("score {} is of token {}: {}", sequence.scored, token.token, token.logprob));
    ++sequence.scored;
  }
}

void Client::take_end(Sequence& sequence, const requests::SequenceEnd& end) {
  sequence.ended = true;
  ++ended_;
  if (end.generated != sequence.received) wrong("the end counts other tokens than came");
  if (sequence.received != sequence.answer.size())
    wrong(fmt::format("{} of {} tokens came", sequence.received, sequence.answer.size()));
  if (sequence.scored != sequence.scores.size())
    wrong(fmt::format("{} of {} scores came", sequence.scored, sequence.scores.size()));
  if ((end.reason == requests::EndReason::kStop) != sequence.may_stop) wrong("it ended for another reason");
  record_.saw(sequence.may_stop ? "ended by a stop id" : "ended by max_tokens");
  if (!sequence.scores.empty()) record_.saw("prompt scored");
  if (ended_ == sequences_.size()) {
    record_.saw(sequences_.size() > 1 ? "several choices answered" : "answered");
    record_.trace("{} is answered", name_);
  }
}

void Client::on_error(const Error& error, uint32_t retry_after_s) {
  record_.trace("{} fails: {}", name_, to_string(error));
  if (gone_) return wrong("an error after it has gone");
  if (error_) return wrong("two errors");
  if (answered()) return wrong("an error after the end");
  if (error.code == Errc::kOverloaded && retry_after_s == 0) wrong("overload without a time to come again");
  error_ = error;
  record_.saw(fmt::format("error: {}", errc_info(error.code).label));
}

void Client::disconnect() {
  gone_ = true;
  record_.saw("client gone");
  record_.trace("{} goes away", name_);
}

void Client::lose_coordinator() {
  gone_ = true;
  record_.trace("{} loses its coordinator", name_);
}

}  // namespace krait::simulation
