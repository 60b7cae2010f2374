// The command krait-tune as people call it: its plan is taken by the programs that it is for, and holds its budget.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>

#include "common/weights/checkpoint.h"
#include "deploy/tools/text_sequences.h"
#include "shard_server/collectives/tcp_socket.h"
#include "shard_server/service/collective_plan.h"
#include "shard_server/service/plan_file.h"
#include "tests/support/command.h"
#include "tests/support/draws.h"
#include "tests/support/golden.h"

namespace krait::tools {
namespace {

using test::Outcome;
using Sequences = std::vector<std::vector<int32_t>>;

std::string demo() {
  return test::source_path("deploy/demo_model");
}

nlohmann::json json_of(const std::string& program, const std::string& arguments) {
  const Outcome outcome = test::run_command(program, fmt::format("--model '{}' {} --json", demo(), arguments));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.exit_code == 0 ? nlohmann::json::parse(outcome.out) : nlohmann::json();
}

class KraitTune : public testing::Test {
 protected:
  void SetUp() override {
    text = folder.path() + "/text.txt";
    const std::string command =
        fmt::format("xz --decompress --stdout '{}/held_out.txt.xz' | head --bytes=6000 > '{}'", demo(), text);
    ASSERT_EQ(std::system(command.c_str()), 0);
    out = folder.path() + "/plan.json";
  }
  const test::ScratchDir folder;
  std::string text;
  std::string out;
};

TEST(FirstTokens, AreCountedOverSequences) {
  const Sequences all = {{0, 1, 2, 3}, {0, 4, 5}, {0, 6}};
  EXPECT_EQ(first_tokens(all, 100), all);
  EXPECT_EQ(first_tokens(all, 6), all);
  EXPECT_EQ(first_tokens(all, 5), (Sequences{{0, 1, 2, 3}, {0, 4, 5}}));
  EXPECT_EQ(first_tokens(all, 4), (Sequences{{0, 1, 2, 3}, {0, 4}}));
  EXPECT_EQ(first_tokens(all, 3), (Sequences{{0, 1, 2, 3}}));
  EXPECT_EQ(first_tokens(all, 1), (Sequences{{0, 1}}));
}

TEST_F(KraitTune, APlanMayBeCheckedOnATextThatItWasNotChosenBy) {
  const std::string other = folder.path() + "/other.txt";
  const std::string command =
      fmt::format("xz --decompress --stdout '{}/held_out.txt.xz' | tail --bytes=5000 > '{}'", demo(), other);
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto report = json_of(
      "krait-tune", fmt::format("--ranks 2 --quality '{}' --check '{}' --tokens 100000 --out '{}'", text, other, out));
  ASSERT_TRUE(report.contains("quality"));
  const auto perplexity = [&](const std::string& more) {
    return json_of("krait-perplexity", fmt::format("--text '{}' --ranks 2 {}", other, more))["perplexity"]
        .get<double>();
  };
  const double change = perplexity(fmt::format("--collectives auto --collectives-plan '{}'", out)) / perplexity("") - 1;
  EXPECT_LE(std::abs(change), 0.003);
  EXPECT_NEAR(change, report["quality"]["perplexity_change"].get<double>(), 1e-12);
  const Outcome alone = test::run_command("krait-tune", fmt::format("--model '{}' --check '{}'", demo(), other));
  EXPECT_NE(alone.err.find("--quality"), std::string::npos) << alone.err;
}

// krait-perplexity runs the plan anew, by the file alone.
TEST_F(KraitTune, APlanHoldsItsBudget) {
  for (const int ranks : {2, 4}) {
    const auto report =
        json_of("krait-tune", fmt::format("--ranks {} --quality '{}' --tokens 100000 --out '{}'", ranks, text, out));
    ASSERT_TRUE(report.contains("quality"));
    const auto& quality = report["quality"];
    const auto run = [&](const std::string& more) {
      return json_of("krait-perplexity", fmt::format("--text '{}' --ranks {} {}", text, ranks, more));
    };
    const auto exact = run("");
    const auto planned = run(fmt::format("--collectives auto --collectives-plan '{}'", out));
    EXPECT_EQ(quality["tokens"], exact["tokens"]);
    EXPECT_EQ(quality["perplexity"], exact["perplexity"]);
    const double change = planned["perplexity"].get<double>() / exact["perplexity"].get<double>() - 1;
    std::printf("  %d ranks: perplexity %+.4f %%, %g of %g bytes\n", ranks, change * 100,
                quality["bytes_per_token"].get<double>(), quality["exact_bytes_per_token"].get<double>());
    EXPECT_LE(std::abs(change), 0.003);
    EXPECT_NEAR(change, quality["perplexity_change"].get<double>(), 1e-12);
    EXPECT_NE(change, 0) << "the plan was not used";
    EXPECT_LT(quality["bytes_per_token"].get<double>(), 0.55 * quality["exact_bytes_per_token"].get<double>());
  }
}

TEST_F(KraitTune, TellsWhatEachCodecDoesToEachSum) {
  const auto report = json_of("krait-tune", fmt::format("--quality '{}' --tokens 300 --out '{}'", text, out));
  const auto& sums = report["quality"]["sums"];
  ASSERT_EQ(sums.size(), 6u);
  const auto file = shard::parse_plan_file(test::read_file(out), out).value();
  ASSERT_EQ(file.plan.sums.size(), sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    EXPECT_EQ(sums[i]["layer"], i);
    EXPECT_EQ(sums[i]["operation"], "out_proj");
    EXPECT_EQ(sums[i]["chosen"], file.plan.sums[i].codec);
    const auto error = [&](const char* codec) { return sums[i]["codecs"][codec]["error"].get<double>(); };
    EXPECT_EQ(error("exact"), 0);
    EXPECT_GT(error("bf16"), 1e-5);
    EXPECT_GT(error("int8"), 2 * error("bf16"));
    EXPECT_GT(error("int4"), 5 * error("int8"));
    EXPECT_LT(error("int4"), 0.3);
    EXPECT_EQ(sums[i]["codecs"]["exact"]["perplexity_change"], 0);
    EXPECT_NE(sums[i]["codecs"]["int4"]["perplexity_change"], 0);
  }
}

TEST_F(KraitTune, WithoutABudgetOrATextSumsStayExact) {
  const std::vector<std::string> ways = {"--transport tcp", fmt::format("--quality '{}' --tokens 64 --budget 0", text)};
  for (const std::string& way : ways) {
    json_of("krait-tune", fmt::format("{} --out '{}'", way, out));
    const auto file = shard::parse_plan_file(test::read_file(out), out).value();
    EXPECT_EQ(file.world, 2u);
    for (const auto& sum : file.plan.sums)
      EXPECT_EQ(sum.codec, "exact");
    std::set<std::string> tabled;
    for (const auto& row : file.plan.algorithms)
      tabled.insert(row.codec);
    EXPECT_EQ(tabled.size(), collectives::all_codecs().size());
    EXPECT_FALSE(file.plan.codecs_by_size.empty());
    EXPECT_TRUE(shard::choose_sums({.mode = "auto", .plan_path = out, .world = 2, .dtype = "f32"},
                                   *Checkpoint::open(demo()).value())
                    .ok());
  }
}

TEST_F(KraitTune, ProcessesMeasureTogether) {
  const std::string address = collectives::TcpListener::open("127.0.0.1:0").value()->address();
  const std::string group = fmt::format("--ranks 2 --collectives-address {} ", address);
  Outcome other;
  std::thread rank_1([&] { other = test::run_command("krait-tune", group + "--rank 1"); });
  const auto report = json_of("krait-tune", group + fmt::format("--out '{}'", out));
  rank_1.join();
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_EQ(other.out, "") << "rank 0 has the figures";
  EXPECT_EQ(report["transport"], "tcp");
  EXPECT_GT(report["links"]["latency_us"], 0);
  EXPECT_TRUE(shard::parse_plan_file(test::read_file(out), out).ok());
}

TEST_F(KraitTune, WhatCannotBeDoneIsSaid) {
  const auto refused = [&](const std::string& arguments) {
    const Outcome outcome = test::run_command("krait-tune", arguments);
    EXPECT_NE(outcome.exit_code, 0) << arguments;
    return outcome.err;
  };
  const std::string model = fmt::format("--model '{}' ", demo());
  EXPECT_NE(refused("--out x").find("--model"), std::string::npos);
  EXPECT_NE(refused(model + "--ranks 1").find("ranks"), std::string::npos);
  EXPECT_NE(refused(model + "--rank 2").find("rank 2"), std::string::npos);
  EXPECT_NE(refused(model + "--collectives-address nowhere").find("collectives-address"), std::string::npos);
  EXPECT_NE(refused(model + fmt::format("--quality /none --out '{}'", out)).find("/none"), std::string::npos);
  EXPECT_NE(refused(model + "--out /none/x").find("/none/x"), std::string::npos);
}

}  // namespace
}  // namespace krait::tools
