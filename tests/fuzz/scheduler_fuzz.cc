// The scheduler as a machine: operations from the input against a model that only knows what was asked for and what a
// coordinator and the ranks must be able to rely on. In which order requests are served is not its business.
#include "tests/fuzz/scheduler_model.h"

namespace krait::fuzz {
namespace {

wire::Submit read_submit(Source& source, uint64_t number) {
  wire::Submit submit;
  submit.request = number;
  submit.model = source.byte() == 0xFF ? "other" : "m";
  submit.tokens.resize(source.below(80));
  for (int32_t& token : submit.tokens)
    token = source.byte() % SchedulerModel::kVocab;
  if (source.byte() == 0xFF && !submit.tokens.empty()) submit.tokens.back() = SchedulerModel::kVocab;
  submit.max_tokens = source.below(12);
  submit.generated = source.byte() < 0xE0 ? 0 : source.below(6);
  submit.sampling.prompt_logprobs = source.byte() % 4 == 3;
  const uint32_t stops = source.below(4);
  for (uint32_t i = 0; i < stops; ++i)
    submit.sampling.stop_ids.push_back(static_cast<int32_t>(i * 60 + source.below(60)));
  submit.deadline_ms = source.byte() % 4 == 3 ? 1 + source.byte() : 0;
  submit.client = std::string(1, static_cast<char>('a' + source.byte() % 3));
  return submit;
}

std::string peer_of(uint8_t byte) {
  return byte % 2 == 0 ? "c" : "d";
}

/// One operation; false once the group is lost, as the leader then makes a new scheduler. Every byte is taken in a
/// statement of its own, so that compilers agree on what an input means.
bool operate(SchedulerModel& model, Source& source) {
  const uint8_t operation = source.byte() % 16;
  const uint8_t a = source.byte();
  if (operation < 4) {
    const uint64_t number = operation < 3 ? model.new_number() : model.old_number(a >> 1);
    model.submit(peer_of(a), read_submit(source, number));
  } else if (operation < 6) {
    model.cancel(peer_of(a), model.old_number(a >> 1), a);
  } else if (operation < 7) {
    model.advance_ms(a);
  } else if (operation < 10) {
    model.plan();
  } else if (operation < 13) {
    model.step_done(a * 100);
  } else if (operation < 14) {
    model.wrong_step_done(a);
  } else if (operation < 15) {
    a % 4 < 2 ? model.drop_peer(peer_of(a)) : model.fail_peer(peer_of(a));
  } else if (a < 0x20) {
    model.drain();
  } else if (a >= 0xF0) {
    model.lose_rank();
    return false;
  }
  return true;
}

}  // namespace

KRAIT_FUZZ(scheduler, input) {
  Source source(input);
  const uint32_t slots = 1 + source.below(6);
  const uint32_t max_queue = source.below(8);
  const uint8_t step_ms = source.byte();
  SchedulerModel model(slots, max_queue, 1 + step_ms, slots + 16 + source.byte());
  // What is left after the operations runs to its end; a lost group has nothing left.
  while (!source.empty()) {
    if (!operate(model, source)) return;
    model.check_balance();
  }
  model.run_to_the_end();
}

}  // namespace krait::fuzz
