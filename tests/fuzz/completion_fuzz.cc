// The body of a completion request: what is taken passes the wire and a group's admission too, for a model with and
// without a tokenizer (the first byte's lowest bit).
#include <numeric>

#include "common/wire/codec.h"
#include "coordinator/api/completion_request.h"
#include "coordinator/api/json_body.h"
#include "shard_server/scheduler/scheduler.h"
#include "tests/fuzz/harness.h"

namespace krait::api {
namespace {

/// Bytes as tokens, one special token, and a few merges: every text has ids.
std::string small_tokenizer_json() {
  std::string vocab = R"("<s>":0)";
  for (int byte = 0; byte < 256; ++byte)
    vocab += fmt::format(R"(,"<0x{:02X}>":{})", byte, byte + 1);
  vocab += R"(,"h":257,"e":258,"he":259)";
  return R"({"added_tokens":[{"id":0,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,)"
         R"("normalized":false,"special":true}],"normalizer":null,"pre_tokenizer":null,"post_processor":null,)"
         R"("decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"}]},)"
         R"("model":{"type":"BPE","unk_token":null,"fuse_unk":false,"byte_fallback":true,"vocab":{)" +
         vocab + R"(},"merges":["h e"]}})";
}

const ModelInfo& model(bool with_tokenizer) {
  static const auto tokenizer = tokenizer::Tokenizer::parse(small_tokenizer_json());
  CHECK(tokenizer.ok());
  static const ModelInfo with{"m", 264, {0, 5}, *tokenizer};
  static const ModelInfo without{"m", 264, {0, 5}, nullptr};
  return with_tokenizer ? with : without;
}

/// The sequence travels and is admitted.
void check_sequence(wire::Submit submit, uint32_t choice) {
  CHECK_EQ(submit.sampling.choice, choice);
  submit.request = 1;
  const auto arrived = wire::decode(wire::encode(submit));
  CHECK(arrived.ok());
  CHECK(std::get<wire::Submit>(*arrived) == submit);
  const ManualClock clock(1);
  scheduler::SchedulerOptions options;
  options.model = "m";
  options.vocab_size = 264;
  scheduler::Scheduler scheduler(options, clock);
  scheduler.submit("c", std::get<wire::Submit>(*arrived));
  CHECK_EQ(scheduler.stats().rejected, 0u);
}

}  // namespace

KRAIT_FUZZ(completion, input) {
  fuzz::Source source(input);
  const auto& served = model(source.byte() % 2 == 1);
  const auto request = read_completion_request(fuzz::text(source.rest()), served);
  if (!request.ok()) {
    CHECK(request.error().code == Errc::kInvalidArgument || request.error().code == Errc::kNotFound ||
          request.error().code == Errc::kTooLarge);
    fuzz::check_error_text(request.error().message, request.error().param);
    return;
  }
  const auto spec = request->generation();
  CHECK_EQ(spec.sequences(), request->prompts.size() * request->n);
  CHECK_GT(spec.sequences(), 0u);
  check_sequence(spec.submit(0), 0);
  check_sequence(spec.submit(spec.sequences() - 1), request->n - 1);
  if (spec.shared.stop != nullptr) {
    for (const auto& stop : spec.shared.stop->strings())
      CHECK(!stop.empty());
  }
  for (const char c : request->unknown_fields.header())
    CHECK(c >= ' ' && c <= '~');
  const auto& tokens = spec.prompts.front().tokens;
  if (fuzz::planted_at(std::accumulate(tokens.begin(), tokens.end(), uint64_t{0}))) fuzz::found_planted();
}

}  // namespace krait::api
