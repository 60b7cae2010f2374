#include "tests/support/random_message.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/limits.h"

namespace krait::test {
namespace {

using namespace wire;

class Filler final {
 public:
  Filler(SplitMix64& random, size_t max_list) : random_(random), max_list_(max_list) {}

  /// Uniform in [low, high], but at each end a quarter of the time.
  template <class T>
  void number(T& value, int64_t low, int64_t high) {
    const uint64_t choice = random_.below(4);
    const int64_t inner = low + static_cast<int64_t>(random_.below(static_cast<uint64_t>(high - low) + 1));
    value = static_cast<T>(choice == 0 ? low : choice == 1 ? high : inner);
  }
  void any(uint64_t& value) { value = random_.next(); }
  void any(uint32_t& value) { number(value, 0, std::numeric_limits<uint32_t>::max()); }
  void any(int32_t& value) { number(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()); }
  void any(int64_t& value) { value = static_cast<int64_t>(random_.next()); }
  void any(bool& value) { value = random_.below(2) == 1; }
  void any(float& value) { value = static_cast<float>(random_.uniform() * 200 - 100); }
  void duration(int64_t& value) { value = static_cast<int64_t>(random_.next() >> 1); }
  void positive(double& value) { value = random_.uniform() * 1e6; }
  void token(int32_t& value) { number(value, 0, limits::kMaxVocab - 1); }
  void slot(int32_t& value) { number(value, 0, limits::kMaxSlots - 1); }
  void slots(uint32_t& value) { number(value, 0, limits::kMaxSlots); }
  void position(uint32_t& value) { number(value, 0, limits::kMaxSequenceTokens); }
  void rank(uint32_t& value) { number(value, 0, limits::kMaxWorld - 1); }
  void port(uint32_t& value) { number(value, 0, 65'535); }

  /// Any bytes, also zeros and broken UTF-8.
  void text(std::string& value) {
    value.resize(random_.below(24));
    for (char& byte : value)
      byte = static_cast<char>(random_.below(256));
  }

  /// Each element is filled by `fill(element)`.
  template <class T, class Fill>
  void list(std::vector<T>& values, size_t limit, Fill fill) {
    values.resize(random_.below(3) == 0 ? 0 : random_.below(std::min(max_list_, limit) + 1));
    for (T& value : values)
      fill(value);
  }
  template <class T>
  void structs(std::vector<T>& values, size_t limit) {
    list(values, limit, [this](T& value) { fill(value); });
  }
  void tokens(std::vector<int32_t>& values, size_t limit) {
    list(values, limit, [this](int32_t& value) { token(value); });
  }

  void fill(Error& value) {
    auto& [code, message, param] = value;
    uint8_t number_of_code = 0;
    do {
      number(number_of_code, 0, 255);
    } while (!is_errc(number_of_code));
    code = static_cast<Errc>(number_of_code);
    text(message);
    text(param);
  }
  void fill(LogitBias& value) {
    auto& [token_id, bias] = value;
    token(token_id);
    any(bias);
  }
  void fill(SamplingParams& value) {
    auto& [temperature, top_p, min_p, top_k, presence, frequency, repetition, logit_bias, stop_ids, min_tokens, seed,
           vocab_limit, choice, logprobs, prompt_logprobs] = value;
    for (float* number : {&temperature, &top_p, &min_p, &presence, &frequency, &repetition})
      any(*number);
    repetition = std::max(std::abs(repetition), std::numeric_limits<float>::min());
    any(top_k);
    structs(logit_bias, limits::kMaxLogitBias);
    tokens(stop_ids, limits::kMaxStopIds);
    number(min_tokens, 0, limits::kMaxSequenceTokens);
    any(seed);
    number(vocab_limit, 0, limits::kMaxVocab);
    any(choice);
    number(logprobs, -1, limits::kMaxLogprobs);
    any(prompt_logprobs);
  }
  void fill(TokenLogprob& value) {
    auto& [token_id, logprob] = value;
    token(token_id);
    any(logprob);
  }
  void fill(TokenInfo& value) {
    auto& [token_id, logprob, top] = value;
    token(token_id);
    any(logprob);
    structs(top, limits::kMaxLogprobs);
  }

  void fill(Hello& value) {
    auto& [protocol, incarnation, name] = value;
    any(protocol);
    any(incarnation);
    text(name);
  }
  void fill(Heartbeat& value) {
    auto& [incarnation] = value;
    any(incarnation);
  }
  void fill(Submit& value) {
    auto& [request, model, numerics_id, token_list, generated, max_tokens, sampling, deadline_ms, marks, cache_hint,
           client] = value;
    any(request);
    for (std::string* words : {&model, &numerics_id, &cache_hint, &client})
      text(*words);
    tokens(token_list, limits::kMaxPromptTokens);
    number(generated, 0, static_cast<int64_t>(token_list.size()));
    position(max_tokens);
    fill(sampling);
    number(deadline_ms, 0, limits::kMaxDeadlineMs);
    list(marks, limits::kMaxMarks, [this](uint32_t& mark) { any(mark); });
  }
  void fill(Cancel& value) {
    auto& [request, keep] = value;
    any(request);
    any(keep);
  }
  void fill(Drain&) {}
  void fill(Accepted& value) {
    auto& [request, numerics_id] = value;
    any(request);
    text(numerics_id);
  }
  void fill(TokenChunk& value) {
    auto& [request, first_index, token_list, first_position, prompt_logprobs] = value;
    any(request);
    position(first_index);
    structs(token_list, limits::kMaxStepRows);
    position(first_position);
    structs(prompt_logprobs, limits::kMaxEchoLogprobTokens);
  }
  void fill(Tokens& value) {
    auto& [step, chunks] = value;
    any(step);
    structs(chunks, limits::kMaxSlots);
  }
  void fill(Finished& value) {
    auto& [request, reason, generated, cached_tokens, queue_us, prefill_us, decode_us, error] = value;
    any(request);
    number(reason, 0, static_cast<int64_t>(FinishReason::kError));
    position(generated);
    position(cached_tokens);
    for (int64_t* time : {&queue_us, &prefill_us, &decode_us})
      duration(*time);
    fill(error);
  }
  void fill(Rejected& value) {
    auto& [request, error, retry_after_s] = value;
    any(request);
    fill(error);
    any(retry_after_s);
  }
  void fill(RankStatus& value) {
    auto& [rank_id, pid, joined, ready, metrics_port] = value;
    rank(rank_id);
    any(pid);
    any(joined);
    any(ready);
    port(metrics_port);
  }
  void fill(wire::Status& value) {
    auto& [protocol, incarnation, epoch, state, model, fingerprint, numerics_id, slot_count, running, waiting,
           max_queue, tokens_per_second, backlog_seconds, detail, ranks] = value;
    any(protocol);
    any(incarnation);
    any(epoch);
    number(state, 0, static_cast<int64_t>(GroupState::kFailed));
    for (std::string* words : {&model, &fingerprint, &numerics_id, &detail})
      text(*words);
    slots(slot_count);
    for (uint32_t* count : {&running, &waiting, &max_queue})
      any(*count);
    positive(tokens_per_second);
    positive(backlog_seconds);
    structs(ranks, limits::kMaxWorld);
  }

  void fill(Join& value) {
    auto& [protocol, incarnation, rank_id, world, version, fingerprint, dtype, path, speed, pid, metrics_port,
           whole_weights] = value;
    any(protocol);
    any(incarnation);
    rank(rank_id);
    number(world, 1, limits::kMaxWorld);
    for (std::string* words : {&version, &fingerprint, &dtype, &path})
      text(*words);
    positive(speed);
    any(pid);
    port(metrics_port);
    any(whole_weights);
  }
  void fill(SumCodec& value) {
    auto& [layer, operation, codec] = value;
    number(layer, 0, limits::kMaxLayers - 1);
    text(operation);
    text(codec);
  }
  void fill(SizeCodec& value) {
    auto& [bytes, codec] = value;
    number(bytes, 1, limits::kMaxCollectiveMessageBytes);
    text(codec);
  }
  void fill(SumAlgorithm& value) {
    auto& [codec, bytes, two_shot, stage_bytes] = value;
    text(codec);
    number(bytes, 1, limits::kMaxCollectiveMessageBytes);
    any(two_shot);
    number(stage_bytes, limits::kMinCollectiveStageBytes, limits::kMaxCollectiveStageBytes);
  }
  void fill(CollectivePlan& value) {
    auto& [sums, codecs_by_size, algorithms] = value;
    structs(sums, limits::kMaxHiddenSums);
    structs(codecs_by_size, limits::kMaxSizeCodecs);
    structs(algorithms, limits::kMaxSumAlgorithms);
  }
  void fill(Form& value) {
    auto& [epoch, world, shares, path, codec, bootstrap, plan] = value;
    any(epoch);
    number(world, 1, limits::kMaxWorld);
    list(shares, world, [this](double& share) { positive(share); });
    text(path);
    text(codec);
    text(bootstrap);
    fill(plan);
  }
  void fill(Load& value) {
    auto& [epoch, slot_count] = value;
    any(epoch);
    slots(slot_count);
  }
  void fill(Ready& value) {
    auto& [epoch, rank_id, slot_count, max_rows, numerics_id, weight_bytes, state_bytes, non_finite, kv_pages] = value;
    any(epoch);
    rank(rank_id);
    slots(slot_count);
    number(max_rows, 0, limits::kMaxStepRows);
    number(kv_pages, 0, limits::kMaxKvPages);
    text(numerics_id);
    for (uint64_t* count : {&weight_bytes, &state_bytes, &non_finite})
      any(*count);
  }
  void fill(Admission& value) {
    auto& [slot_id, prompt_tokens, sampling, pages] = value;
    slot(slot_id);
    number(prompt_tokens, 0, limits::kMaxPromptTokens);
    fill(sampling);
    list(pages, limits::kMaxSequencePages, [this](int32_t& page) { number(page, 0, limits::kMaxKvPages - 1); });
  }
  void fill(StepRun& value) {
    auto& [in_slot, out_slot, sequence_slot, first_position, token_list, sample, prompt_logprobs, next_token, ranks] =
        value;
    number(in_slot, -1, limits::kMaxSlots - 1);
    slot(out_slot);
    slot(sequence_slot);
    position(first_position);
    // A share of the rows that a step may have, so that all runs together stay within them.
    tokens(token_list, std::max<size_t>(1, limits::kMaxStepRows / std::max<size_t>(1, max_list_)));
    any(sample);
    any(prompt_logprobs);
    number(next_token, -1, limits::kMaxVocab - 1);
    number(ranks, 1, limits::kMaxWorld);
  }
  void fill(Step& value) {
    auto& [epoch, step, deadline_ms, admissions, runs, taps] = value;
    any(epoch);
    any(step);
    number(deadline_ms, 0, limits::kMaxDeadlineMs);
    structs(admissions, limits::kMaxSlots);
    structs(runs, limits::kMaxStepRows);
    int64_t rows = 0;
    for (const StepRun& run : runs)
      rows += run.rows();
    if (rows == 0) return;
    list(taps, limits::kMaxSlots, [&](StepTap& tap) {
      auto& [row, slot_id] = tap;
      number(row, 0, rows - 1);
      slot(slot_id);
    });
  }
  void fill(RowSample& value) {
    auto& [slot_id, done, info, failed] = value;
    slot(slot_id);
    any(done);
    any(failed);
    fill(info);
    if (done && random_.below(2) == 0) info.token = -1;
  }
  void fill(RowLogprobs& value) {
    auto& [slot_id, first_position, entries, failed] = value;
    slot(slot_id);
    any(failed);
    position(first_position);
    structs(entries, limits::kMaxStepRows);
  }
  void fill(StepDone& value) {
    auto& [epoch, step, rank_id, digest, timings, samples, prompt_logprobs] = value;
    any(epoch);
    any(step);
    rank(rank_id);
    any(digest);
    auto& [total_us, collective_us, wait_us, sample_us] = timings;
    for (int64_t* time : {&total_us, &collective_us, &wait_us, &sample_us})
      duration(*time);
    structs(samples, limits::kMaxStepRows);
    structs(prompt_logprobs, limits::kMaxStepRows);
  }
  void fill(Failed& value) {
    auto& [epoch, rank_id, error] = value;
    any(epoch);
    rank(rank_id);
    fill(error);
  }
  void fill(Leave& value) {
    auto& [epoch, reason] = value;
    any(epoch);
    text(reason);
  }

  /// The alternative at index `kind`, filled.
  template <size_t index = 0>
  Message message(size_t kind) {
    if constexpr (index < kMessageKinds) {
      if (kind != index) return message<index + 1>(kind);
      std::variant_alternative_t<index, Message> value;
      fill(value);
      return value;
    } else {
      check_failed(__FILE__, __LINE__, "kind < kMessageKinds", fmt::format("{}", kind));
    }
  }

 private:
  SplitMix64& random_;
  size_t max_list_;
};

}  // namespace

wire::Message random_message(SplitMix64& random, size_t kind, size_t max_list) {
  return Filler(random, max_list).message(kind);
}

}  // namespace krait::test
