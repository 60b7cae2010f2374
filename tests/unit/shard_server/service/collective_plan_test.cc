// krait-tune's file, from text to what a rank runs: what is written is read, and whatever is wrong is named.
#include "shard_server/service/collective_plan.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "shard_server/service/plan_file.h"
#include "tests/support/golden.h"

namespace krait::shard {
namespace {

using collectives::Codec;

class CollectivePlan : public testing::Test {
 protected:
  /// Of every hidden sum of the model, with codecs in turn.
  static PlanFile plan_for(const Checkpoint& model, uint32_t world) {
    PlanFile file{.fingerprint = model.fingerprint(), .world = world, .dtype = "f32"};
    for (const HiddenSum& sum : hidden_sums(model.plan())) {
      const auto& codec = collectives::all_codecs()[file.plan.sums.size() % collectives::all_codecs().size()];
      file.plan.sums.push_back({static_cast<uint32_t>(sum.layer), std::string(sum.operation), std::string(codec.name)});
    }
    file.plan.codecs_by_size = {{1000, "exact"}, {2000, "bf16"}};
    file.plan.algorithms = {{"exact", 1024, false, 65536}, {"exact", 1 << 20, true, 262144}, {"int8", 500, true, 4096}};
    return file;
  }
  std::string write(const std::string& text) {
    const std::string path = folder.path() + "/plan.json";
    std::ofstream(path) << text;
    return path;
  }
  Result<GroupSums> choose(const std::string& mode, const std::string& path, uint32_t world = 2,
                           const std::string& dtype = "f32") const {
    return choose_sums({.mode = mode, .plan_path = path, .world = world, .dtype = dtype}, *model);
  }
  static wire::Form form_of(const GroupSums& sums) {
    wire::Form form;
    form.codec = sums.codec;
    form.plan = sums.plan;
    return form;
  }

  const std::shared_ptr<const Checkpoint> model = Checkpoint::open(test::golden_path("models/zamba2")).value();
  const test::ScratchDir folder;
};

void replace(std::string& text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

TEST_F(CollectivePlan, WhatIsWrittenIsRead) {
  PlanFile file = plan_for(*model, 4);
  EXPECT_GT(file.plan.sums.size(), 10u);
  EXPECT_EQ(parse_plan_file(plan_file_text(file), "x").value(), file);
  file.plan = {};
  EXPECT_EQ(parse_plan_file(plan_file_text(file), "x").value(), file);
}

TEST_F(CollectivePlan, EveryWrongFieldIsNamed) {
  struct Case final {
    std::string_view from;
    std::string_view to;
    std::string_view param;
  };
  const std::vector<Case> cases = {
      {"\"krait_collective_plan\": 1", "\"krait_collective_plan\": 2", "krait_collective_plan"},
      {"\"krait_collective_plan\": 1", "\"other\": 1", "krait_collective_plan"},
      {"\"fingerprint\": \"", "\"fingerprint\": 7, \"x\": \"", "x"},
      {"\"fingerprint\"", "\"finger\"", "fingerprint"},
      {"\"world\": 2", "\"world\": 0", "world"},
      {"\"world\": 2", "\"world\": 9", "world"},
      {"\"world\": 2", "\"world\": 2.5", "world"},
      {"\"world\": 2", "\"world\": \"2\"", "world"},
      {"\"world\": 2", "\"world\": 18446744073709551615", "world"},
      {"\"dtype\": \"f32\"", "\"dtype\": \"f31\"", "dtype"},
      {"\"dtype\": \"f32\"", "\"dtype\": null", "dtype"},
      {"\"sums\": [", "\"sums\": {}, \"y\": [", "y"},
      {"{\"layer\": 1, ", "{\"layer\": -1, ", "sums[1].layer"},
      {"{\"layer\": 1, ", "{\"layer\": 1024, ", "sums[1].layer"},
      {"{\"layer\": 1, ", "{", "sums[1].layer"},
      {"{\"layer\": 1, ", "{\"more\": 1, \"layer\": 1, ", "sums[1].more"},
      {"{\"layer\": 1, ", "7, {\"layer\": 1, ", "sums[1]"},
      {"\"operation\": \"out_proj\"", "\"operation\": true", "sums[0].operation"},
      {"\"codec\": \"exact\"", "\"codec\": \"fp8\"", "sums[0].codec"},
      {"{\"bytes\": 1000,", "{\"bytes\": 0,", "codecs_by_size[0].bytes"},
      {"{\"bytes\": 1000, \"codec\": \"exact\"", "{\"bytes\": 1000, \"codec\": \"\"", "codecs_by_size[0].codec"},
      {"{\"bytes\": 2000,", "{\"bytes\": 1000,", "codecs_by_size"},
      {"\"algorithms\": [", "\"algorithms\": \"none\", \"z\": [", "z"},
      {"\"two_shot\": false", "\"two_shot\": 0", "algorithms[0].two_shot"},
      {"\"stage_bytes\": 65536", "\"stage_bytes\": 511", "algorithms[0].stage_bytes"},
      {"\"stage_bytes\": 65536", "\"stage_bytes\": 4194305", "algorithms[0].stage_bytes"},
      {"\"bytes\": 1024, \"two", "\"bytes\": 4294967297, \"two", "algorithms[0].bytes"},
      {"\"bytes\": 1024, \"two", "\"bytes\": 1048576, \"two", "algorithms"},
      {"\"codec\": \"int8\", \"bytes\": 500", "\"codec\": \"int9\", \"bytes\": 500", "algorithms[2].codec"},
  };
  for (const Case& wrong : cases) {
    std::string text = plan_file_text(plan_for(*model, 2));
    replace(text, wrong.from, wrong.to);
    const auto parsed = parse_plan_file(text, "/the/file");
    ASSERT_FALSE(parsed.ok()) << wrong.to;
    EXPECT_EQ(parsed.error().code, Errc::kCorrupt);
    EXPECT_EQ(parsed.error().param, wrong.param) << parsed.error().message;
    EXPECT_EQ(parsed.error().message.rfind("/the/file", 0), 0u) << parsed.error().message;
    EXPECT_NE(parsed.error().message.find(wrong.param), std::string::npos) << parsed.error().message;
  }
}

TEST_F(CollectivePlan, WhatIsNoPlanAtAllIsRefused) {
  const std::string whole = plan_file_text(plan_for(*model, 2));
  for (size_t size = 0; size + 2 < whole.size(); size += 7)
    EXPECT_FALSE(parse_plan_file(whole.substr(0, size), "x").ok()) << size;
  for (const std::string_view text : {"[]", "7", "{}", "\xff", "{\"krait_collective_plan\": []}"})
    EXPECT_EQ(parse_plan_file(text, "x").error().code, Errc::kCorrupt) << text;
  PlanFile large = plan_for(*model, 2);
  large.plan.sums.resize(static_cast<size_t>(limits::kMaxHiddenSums) + 1, large.plan.sums[0]);
  EXPECT_EQ(parse_plan_file(plan_file_text(large), "x").error().param, "sums");
}

TEST_F(CollectivePlan, AutoTakesTheCodecsOfTheFile) {
  const PlanFile file = plan_for(*model, 2);
  const std::string path = write(plan_file_text(file));
  const GroupSums sums = choose("auto", path).value();
  EXPECT_EQ(sums.plan.sums, file.plan.sums);
  EXPECT_EQ(sums.plan.algorithms, file.plan.algorithms);
  EXPECT_TRUE(sums.plan.codecs_by_size.empty());
  const SumCodecs codecs = codecs_of(form_of(sums), model->plan()).value();
  const auto hidden = hidden_sums(model->plan());
  for (size_t i = 0; i < hidden.size(); ++i)
    EXPECT_EQ(codecs.of(hidden[i].block, 1), static_cast<Codec>(i % collectives::all_codecs().size())) << i;
}

TEST_F(CollectivePlan, OtherModesTakeWhatConcernsThem) {
  const PlanFile file = plan_for(*model, 2);
  const std::string path = write(plan_file_text(file));
  const GroupSums uniform = choose("int8", path).value();
  EXPECT_EQ(uniform.codec, "int8");
  EXPECT_TRUE(uniform.plan.sums.empty());
  EXPECT_EQ(uniform.plan.algorithms, file.plan.algorithms);
  EXPECT_TRUE(choose("int8", "").value().plan.algorithms.empty());
  const GroupSums fast = choose("fast", path).value();
  EXPECT_EQ(fast.plan.codecs_by_size, file.plan.codecs_by_size);
  const SumCodecs by_size = codecs_of(form_of(fast), model->plan()).value();
  EXPECT_FALSE(by_size.keeps_the_contract());
  EXPECT_EQ(by_size.of(1, 1000), Codec::kFloat32);
  EXPECT_EQ(by_size.of(1, 1001), Codec::kBf16);
  const SumCodecs unmeasured = codecs_of(form_of(choose("fast", "").value()), model->plan()).value();
  EXPECT_EQ(unmeasured.of(1, 4096), Codec::kFloat32);
  EXPECT_NE(unmeasured.of(1, 1 << 20), Codec::kFloat32);
  EXPECT_EQ(choose("fp8", "").error().code, Errc::kInvalidArgument);
}

TEST_F(CollectivePlan, AFileOfAnotherGroupIsRefused) {
  const auto refused = [&](const PlanFile& file, std::string_view field) {
    const std::string path = write(plan_file_text(file));
    for (const std::string_view mode : {"auto", "fast", "exact"}) {
      const auto chosen = choose(std::string(mode), path);
      ASSERT_FALSE(chosen.ok()) << field;
      EXPECT_EQ(chosen.error().param, field) << chosen.error().message;
      EXPECT_NE(chosen.error().message.find(path), std::string::npos) << chosen.error().message;
      EXPECT_NE(chosen.error().message.find(field), std::string::npos) << chosen.error().message;
    }
  };
  PlanFile file = plan_for(*model, 2);
  file.fingerprint[0] = file.fingerprint[0] == '0' ? '1' : '0';
  refused(file, "fingerprint");
  refused(plan_for(*model, 4), "world");
  file = plan_for(*model, 2);
  file.dtype = "int8";
  refused(file, "dtype");
  file = plan_for(*model, 2);
  file.plan.sums.pop_back();
  refused(file, "sums");
  file = plan_for(*model, 2);
  file.plan.sums[1] = file.plan.sums[0];
  refused(file, "sums");
  file = plan_for(*model, 2);
  file.plan.sums[0].operation = "x_proj";
  refused(file, "sums");
}

TEST_F(CollectivePlan, AMissingFileIsRefusedWhereOneIsNeeded) {
  EXPECT_EQ(choose("auto", folder.path() + "/none.json").error().code, Errc::kNotFound);
  const auto beside = choose("auto", "");
  ASSERT_FALSE(beside.ok());
  EXPECT_NE(beside.error().message.find(model->directory() + "/collectives-2.json"), std::string::npos)
      << beside.error().message;
  EXPECT_TRUE(choose("auto", "", 1).ok()) << "one rank adds nothing";
}

TEST_F(CollectivePlan, AFormThatARankCannotRunIsRefused) {
  wire::Form form;
  form.codec = "fp8";
  EXPECT_EQ(codecs_of(form, model->plan()).error().code, Errc::kProtocol);
  form.codec = "int8";
  form.plan.sums = {{0, "o_proj", "exact"}};
  EXPECT_EQ(codecs_of(form, model->plan()).error().param, "sums");
  form.plan.sums = {{0, "out_proj", "fp8"}};
  EXPECT_EQ(codecs_of(form, model->plan()).error().param, "codec");
  form.plan.sums = {{0, "out_proj", "exact"}};
  const SumCodecs codecs = codecs_of(form, model->plan()).value();
  const auto hidden = hidden_sums(model->plan());
  EXPECT_EQ(codecs.of(hidden[0].block, 1), Codec::kFloat32);
  EXPECT_EQ(codecs.of(hidden[1].block, 1), Codec::kInt8) << "what is not named has the form's codec";
  form.plan.algorithms = {{"exact", 5, false, 1}};
  EXPECT_EQ(algorithms_of(form.plan).error().param, "algorithms");
  form.plan.codecs_by_size = {{5, "exact"}, {5, "bf16"}};
  EXPECT_EQ(size_codecs_of(form.plan).error().param, "codecs_by_size");
}

}  // namespace
}  // namespace krait::shard
