// The command krait-bench as people call it, on models of a few thousand parameters: what it says, never how fast it
// is.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/golden.h"

namespace krait::tools {
namespace {

using test::Outcome;

Outcome bench(const std::string& arguments) {
  return test::run_command("krait-bench", arguments);
}

nlohmann::json bench_json(const std::string& model, const std::string& more) {
  const Outcome outcome = bench(fmt::format("--model '{}' --prompt 40 --generate 8 --batch 1,3 --repeat 2 --json {}",
                                            test::golden_path(fmt::format("models/{}", model)), more));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return nlohmann::json::parse(outcome.out);
}

/// Figures of a phase are positive where there is one, else null: once for each run, and the upper median of the two.
void check_figures(const nlohmann::json& phase, std::vector<std::string> wanted) {
  for (const char* always :
       {"rows_per_step", "reading_share", "roofline_share", "read_gbytes_per_s", "cores_used", "tokens_per_core_s"})
    wanted.emplace_back(always);
  if (phase["peak_gops"].is_number()) {  // on machines whose best instruction is known
    wanted.emplace_back("peak_gops");
    wanted.emplace_back("multiplying_share");
  }
  for (const auto& [name, runs] : phase["runs"].items()) {
    ASSERT_EQ(runs.size(), 2u) << name;
    const bool there = std::erase(wanted, name) > 0;
    EXPECT_EQ(phase[name].is_number(), there) << phase["phase"] << " " << name;
    if (!there) continue;
    EXPECT_GT(runs[0], 0) << name;
    EXPECT_GT(runs[1], 0) << name;
    EXPECT_EQ(phase[name], std::max(runs[0].get<double>(), runs[1].get<double>())) << name;
  }
  EXPECT_TRUE(wanted.empty()) << wanted.front();
}

void check_report(const nlohmann::json& report) {
  ASSERT_EQ(report["phases"].size(), 4u);
  const char* const names[] = {"prefill", "decode", "decode", "mixed"};
  const int batches[] = {1, 1, 3, 3};
  for (size_t i = 0; i < 4; ++i) {
    const nlohmann::json& phase = report["phases"][i];
    EXPECT_EQ(phase["phase"], names[i]);
    EXPECT_EQ(phase["batch"], batches[i]);
    double ms = 0;
    for (const auto& [part, value] : phase["profile"]["ms"].items()) {
      EXPECT_GE(value, 0) << part;
      ms += value.get<double>();
    }
    EXPECT_NEAR(ms / phase["profile"]["step_ms"].get<double>(), 1, 0.1) << "the parts are the whole";
    EXPECT_GT(phase["profile"]["ms"]["gemm"], 0);
    EXPECT_GT(phase["profile"]["ms"]["scan"], 0);
    EXPECT_GT(phase["profile"]["ms"]["conv"], 0);
    EXPECT_GT(phase["profile"]["ms"]["norm"], 0);
    EXPECT_GT(phase["profile"]["ms"]["sampling"], 0);
  }
  const std::vector<std::string> prompts = {"prompt_tokens_per_s", "first_token_ms"};
  const std::vector<std::string> tokens = {"generated_tokens_per_s", "between_tokens_p50_ms", "between_tokens_p99_ms"};
  auto both = prompts;
  both.insert(both.end(), tokens.begin(), tokens.end());
  check_figures(report["phases"][0], prompts);
  check_figures(report["phases"][1], tokens);
  check_figures(report["phases"][2], tokens);
  check_figures(report["phases"][3], both);
  EXPECT_EQ(report["phases"][2]["rows_per_step"], 3) << "all generate in the steps that count";
}

TEST(KraitBench, SaysEverythingAboutAModel) {
  const auto report = bench_json("mamba", "--dtype f32");
  check_report(report);
  EXPECT_EQ(report["ranks"], 1);
  EXPECT_EQ(report["repeat"], 2);
  EXPECT_EQ(report["dtype"], "f32");
  EXPECT_GT(report["weight_bytes"], 0);
}

TEST(KraitBench, RunsRanksAndHybrids) {
  const auto report = bench_json("zamba2", "--dtype int8 --ranks 2 --threads 2 --collectives int8");
  check_report(report);
  EXPECT_EQ(report["collectives"], "int8");
  for (const nlohmann::json& phase : report["phases"]) {
    EXPECT_GT(phase["profile"]["ms"]["attention"], 0);
    EXPECT_GT(phase["profile"]["ms"]["all_reduce"], 0);
    EXPECT_GE(phase["profile"]["ms"]["all_reduce_wait"], 0);
  }
}

TEST(KraitBench, RanksMeetOverTcpAndSayWhatTheySent) {
  const auto report = bench_json("mamba", "--ranks 2 --collectives bf16 --collectives-address 127.0.0.1:0");
  check_report(report);
  const auto in_memory = bench_json("mamba", "--ranks 2 --collectives bf16");
  for (size_t i = 0; i < 3; ++i) {  // the rows of mixed steps follow the clock
    const auto& sent = report["phases"][i]["profile"];
    const auto& passed = in_memory["phases"][i]["profile"];
    EXPECT_GT(sent["sent_bytes"], 0);
    EXPECT_DOUBLE_EQ(sent["sent_bytes"].get<double>() / sent["rows_per_step"].get<double>(),
                     passed["sent_bytes"].get<double>() / passed["rows_per_step"].get<double>());
  }
}

TEST(KraitBench, APromptAloneIsOneLoadAlsoWhereRanksShareIt) {
  for (const char* options : {"--load prefill", "--load prefill --ranks 2 --weights whole --prompt-ranks 2"}) {
    const auto report = bench_json("mamba", options);
    ASSERT_EQ(report["phases"].size(), 1u);
    EXPECT_EQ(report["phases"][0]["phase"], "prefill");
    check_figures(report["phases"][0], {"prompt_tokens_per_s", "first_token_ms"});
  }
}

TEST(KraitBench, PrintsATableForPeople) {
  const Outcome outcome = bench(
      fmt::format("--model '{}' --prompt 16 --generate 8 --batch 2 --repeat 1", test::golden_path("models/mamba2")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* word : {"prefill", "decode 2", "mixed 2", "roofline", "Where a step's time goes"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word << " in\n" << outcome.out;
}

TEST(KraitBench, SaysInOneSentenceWhatIsWrong) {
  const std::string model = fmt::format("--model '{}' ", test::golden_path("models/mamba"));
  const auto expect = [](const std::string& arguments, int code, const std::string& word) {
    const Outcome outcome = bench(arguments);
    EXPECT_EQ(outcome.exit_code, code) << arguments;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.err.starts_with("krait-bench: ")) << outcome.err;
    EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  expect("", 2, "--shape");
  expect(model + "--shape mamba-130m", 2, "--model");
  expect("--shape mamba-7b", 2, "falcon-mamba-7b");
  expect("--model /no/such/folder", 1, "/no/such/folder");
  expect(model + "--batch 1,,2", 2, "--batch");
  expect(model + "--batch 0", 2, "--batch");
  expect(model + "--dtype int3", 2, "--dtype");
  expect(model + "--ranks 9", 2, "--ranks");
  expect(model + "--no-such-option", 2, "--no-such-option");
  expect(model + "--network a", 2, "--collectives-address");
  expect(model + "--collectives-address 127.0.0.1:0 --network a --network b", 2, "--network");
  expect(model + "--collectives-address 127.0.0.1:0 --network no-such-network", 1, "no-such-network");
  expect(model + "--collectives-address nowhere", 2, "nowhere");
}

}  // namespace
}  // namespace krait::tools
