// A model to read requests for, and how tests ask.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "coordinator/api/completion_request.h"
#include "tests/support/golden.h"

namespace krait::api {

inline std::shared_ptr<const tokenizer::Tokenizer> demo_tokenizer() {
  static const auto loaded = tokenizer::Tokenizer::load(test::source_path("deploy/demo_model/tokenizer.json"));
  return loaded.value();
}

/// The demo model's tokenizer and a vocabulary that is a little larger, as padded models have it.
inline ModelInfo demo_info() {
  ModelInfo model;
  model.name = "demo";
  model.tokenizer = demo_tokenizer();
  model.vocab_size = model.tokenizer->vocab_size() + 8;
  model.eos_ids = {0};
  return model;
}

inline ModelInfo info_without_tokenizer() {
  ModelInfo model = demo_info();
  model.tokenizer = nullptr;
  return model;
}

inline std::vector<int32_t> ids_of(const std::string& text) {
  return demo_tokenizer()->encode(text, {}).value();
}

/// "3,4,5": `count` numbers from `first` on.
inline std::string numbers_text(int first, int count) {
  std::vector<int> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return fmt::format("{}", fmt::join(numbers, ","));
}

/// A request with this prompt and these further fields: fields("\"n\":2").
inline std::string body_of(const std::string& fields, const std::string& prompt = "\"Hello\"") {
  return R"({"prompt":)" + prompt + (fields.empty() ? "" : ",") + fields + "}";
}

inline CompletionRequest read_ok(const std::string& body, const ModelInfo& model = demo_info()) {
  auto request = read_completion_request(body, model);
  if (request.ok()) return *std::move(request);
  ADD_FAILURE() << body.substr(0, 200) << ": " << to_string(request.error());
  return {};
}

/// The error's param, once its code and message are as they should be.
inline std::string refused(const std::string& body, const ModelInfo& model = demo_info(),
                           Errc code = Errc::kInvalidArgument) {
  const auto request = read_completion_request(body, model);
  if (request.ok()) {
    ADD_FAILURE() << body.substr(0, 200) << " was accepted";
    return "";
  }
  EXPECT_EQ(request.error().code, code) << to_string(request.error());
  EXPECT_FALSE(request.error().message.empty());
  EXPECT_LT(request.error().message.size(), 400u);
  return request.error().param;
}

}  // namespace krait::api
