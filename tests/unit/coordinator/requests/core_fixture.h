// A request core, and groups played by the test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/units.h"
#include "coordinator/requests/request_core.h"
#include "tests/support/cluster/recording_sink.h"
#include "tests/support/golden.h"

namespace krait::test {

struct CoreFixture : testing::Test {
  static std::shared_ptr<const tokenizer::Tokenizer> demo_tokenizer() {
    static const auto loaded = tokenizer::Tokenizer::load(source_path("deploy/demo_model/tokenizer.json"));
    return loaded.value();
  }

  void make(size_t groups, requests::CoreObserver observer = {}) {
    requests::CoreOptions options;
    options.name = "coordinator";
    options.incarnation = 11;
    options.default_timeout_ms = 60'000;
    options.tokenizer = demo_tokenizer();
    for (size_t group = 0; group < groups; ++group) {
      options.groups.push_back(fmt::format("g{}", group));
      options.addresses.push_back(fmt::format("address{}", group));
    }
    core.emplace(options, clock, std::move(observer));
  }

  static wire::Status serving(double backlog_seconds = 0, uint64_t incarnation = 5) {
    wire::Status status;
    status.incarnation = incarnation;
    status.epoch = 1;
    status.state = wire::GroupState::kServing;
    status.model = "m";
    status.backlog_seconds = backlog_seconds;
    return status;
  }

  static std::vector<int32_t> ids(const std::string& text) { return demo_tokenizer()->encode(text, {}).value(); }

  static requests::GenerationSpec spec_of(size_t sequences = 1) {
    requests::GenerationSpec spec;
    spec.model = "m";
    spec.prompts.assign(sequences, {{1, 2, 3}});
    spec.shared.max_tokens = 100;
    return spec;
  }

  std::shared_ptr<RecordingSink> submit(requests::GenerationSpec spec) {
    auto sink = std::make_shared<RecordingSink>(spec.sequences());
    core->submit(++last_id, std::move(spec), sink);
    return sink;
  }

  template <class T>
  std::vector<T> take(std::optional<size_t> group = std::nullopt) {
    while (auto out = core->next_outgoing())
      sent.push_back(*std::move(out));
    std::vector<T> found;
    std::erase_if(sent, [&](const requests::GroupMessage& out) {
      const auto* it = std::get_if<T>(&out.message);
      if (it == nullptr || (group && *group != out.group)) return false;
      found.push_back(*it);
      return true;
    });
    return found;
  }

  /// The wire number of the only sequence that was submitted since the last call.
  uint64_t number() {
    const auto submits = take<wire::Submit>();
    EXPECT_EQ(submits.size(), 1u);
    return submits.empty() ? 0 : submits[0].request;
  }

  void tokens(uint64_t request, uint32_t first_index, const std::vector<int32_t>& new_ids, size_t group = 0) {
    wire::Tokens message;
    auto& chunk = message.chunks.emplace_back();
    chunk.request = request;
    chunk.first_index = first_index;
    for (const int32_t id : new_ids)
      chunk.tokens.push_back({id, 0, {}});
    core->from_group(group, message);
  }

  void finish(uint64_t request, wire::FinishReason reason, uint32_t generated, size_t group = 0) {
    wire::Finished finished;
    finished.request = request;
    finished.reason = reason;
    finished.generated = generated;
    core->from_group(group, finished);
  }

  ManualClock clock{1};
  std::optional<requests::RequestCore> core;
  requests::RequestId last_id = 0;
  std::vector<requests::GroupMessage> sent;
};

}  // namespace krait::test
