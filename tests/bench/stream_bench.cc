// What one token of a stream costs on the request core's thread: a step's message is decoded, becomes text, JSON and an
// event, for 200 streams at once. That thread must keep up with all groups' tokens.
#include <cstdio>
#include <ctime>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/metrics/registry.h"
#include "common/transport/loopback_transport.h"
#include "common/wire/codec.h"
#include "coordinator/api/api.h"
#include "coordinator/api/completion_answer.h"
#include "coordinator/requests/request_core.h"
#include "tests/support/golden.h"
#include "tests/support/thread_seconds.h"

namespace krait {
namespace {

constexpr size_t kStreams = 200;
constexpr uint32_t kSteps = 200;

/// Counts what it is given.
class Sink final : public http::Responder {
 public:
  void respond(int, http::Headers, std::string) override {}
  void begin_stream(int, http::Headers) override {}
  bool write(std::string chunk) override {
    bytes += chunk.size();
    return true;
  }
  bool write_bulk(std::string chunk) override { return write(std::move(chunk)); }
  void end() override {}
  void on_close(std::function<void()>) override {}
  bool is_open() const override { return true; }
  size_t bytes = 0;
};

struct Stage final {
  SteadyClock clock;
  metrics::Registry registry{metrics::Process::kCoordinator};
  std::unique_ptr<requests::ClusterClient> cluster =
      requests::ClusterClient::start({}, transport::make_loopback_transport(transport::make_loopback_hub()), clock)
          .value();
};

requests::CoreOptions core_options(const api::ModelInfo& model) {
  requests::CoreOptions options;
  options.groups = {"g"};
  options.addresses = {"a"};
  options.tokenizer = model.tokenizer;
  return options;
}

wire::Status serving(const api::ModelInfo& model) {
  wire::Status status;
  status.incarnation = 1;
  status.state = wire::GroupState::kServing;
  status.model = model.name;
  return status;
}

void measure(Stage& stage, const api::ModelInfo& model, int logprobs) {
  api::ApiOptions options;
  options.model = model;
  api::Api api(options, *stage.cluster, stage.registry);
  requests::RequestCore core(core_options(model), stage.clock);
  core.from_group(0, serving(model));
  std::string body = R"({"prompt":"Mr. Darcy","max_tokens":1000,"stream":true)";
  if (logprobs >= 0) body += fmt::format(",\"logprobs\":{}", logprobs);
  const auto request = api::read_completion_request(body + "}", model).value();
  std::vector<std::shared_ptr<Sink>> sinks;
  for (size_t i = 0; i < kStreams; ++i) {
    sinks.push_back(std::make_shared<Sink>());
    core.submit(i + 1, request.generation(),
                std::make_shared<api::CompletionAnswer>(api, request, http::Request{}, sinks[i]));
  }
  while (core.next_outgoing()) {
  }
  const auto words = model.tokenizer->encode("It is a truth universally acknowledged, that a single man", {}).value();
  double seconds = 0;
  for (uint32_t step = 0; step < kSteps; ++step) {
    wire::Tokens message;
    for (size_t i = 0; i < kStreams; ++i) {
      wire::TokenInfo token{words[(step + i) % words.size()], -0.123456f, {}};
      for (int32_t rank = 0; rank < logprobs; ++rank)
        token.top.push_back({100 + rank, -0.5f - 0.37f * static_cast<float>(rank)});
      message.chunks.push_back({i + 1, step, {std::move(token)}, 0, {}});
    }
    const auto bytes = wire::encode(message);
    const double began = test::thread_seconds();
    core.from_group(0, wire::decode(bytes).value());
    seconds += test::thread_seconds() - began;
  }
  size_t written = 0;
  for (const auto& sink : sinks)
    written += sink->bytes;
  const double tokens = kStreams * kSteps;
  std::printf("logprobs %2d: %6.2f us a token, %5.0f bytes; %3zu streams at 50 tokens/s take %4.1f %% of the thread\n",
              logprobs, seconds / tokens * 1e6, static_cast<double>(written) / tokens, kStreams,
              seconds / tokens * kStreams * 50 * 100);
}

int run() {
  api::ModelInfo model;
  model.name = "demo";
  model.tokenizer = tokenizer::Tokenizer::load(test::source_path("deploy/demo_model/tokenizer.json")).value();
  model.vocab_size = model.tokenizer->vocab_size();
  Stage stage;
  for (const int logprobs : {-1, 0, 5, 20})
    measure(stage, model, logprobs);
  return 0;
}

}  // namespace
}  // namespace krait

int main() {
  return krait::run();
}
