#include "common/weights/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>

#include "tests/support/golden.h"
#include "tests/support/safetensors_writer.h"

namespace krait {
namespace {

using test::ScratchDir;
using test::TensorToWrite;

constexpr std::string_view kConfig =
    R"({"model_type":"mamba","hidden_size":8,"vocab_size":20,"num_hidden_layers":2,"eos_token_id":1})";

std::vector<TensorToWrite> sound_tensors(uint64_t seed = 1) {
  return test::random_tensors(*make_model_plan(*parse_model_config(kConfig)), seed);
}

Error error_of(const std::string& directory) {
  const auto checkpoint = Checkpoint::open(directory);
  EXPECT_FALSE(checkpoint.ok());
  return checkpoint.ok() ? Error{} : checkpoint.error();
}

/// The error after `spoil` changed the tensors of a sound checkpoint; kInternal with no message for none.
Error error_with(const std::function<void(std::vector<TensorToWrite>&)>& spoil) {
  const ScratchDir folder;
  std::vector<TensorToWrite> tensors = sound_tensors();
  spoil(tensors);
  test::write_checkpoint(folder.path(), kConfig, tensors);
  const auto checkpoint = Checkpoint::open(folder.path());
  return checkpoint.ok() ? Error{} : checkpoint.error();
}

TensorToWrite& named(std::vector<TensorToWrite>& tensors, std::string_view name) {
  for (TensorToWrite& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  throw std::runtime_error("no such tensor");
}

void expect_sound(const std::string& directory) {
  const auto checkpoint = Checkpoint::open(directory);
  EXPECT_TRUE(checkpoint.ok()) << to_string(checkpoint.error());
}

TEST(Checkpoint, TheFixtureAndTheDemoModelAreSound) {
  expect_sound(test::golden_path("models/mamba"));
  expect_sound(test::source_path("deploy/demo_model"));
  const auto demo = Checkpoint::open(test::source_path("deploy/demo_model"));
  EXPECT_EQ((*demo)->config().vocab_size, 4096);
  EXPECT_EQ((*demo)->config().eos_ids, std::vector<int32_t>{0});
  EXPECT_TRUE((*demo)->config().unknown_fields.empty());
}

TEST(Checkpoint, SeveralFilesAreOneCheckpoint) {
  const ScratchDir one;
  const ScratchDir three;
  test::write_checkpoint(one.path(), kConfig, sound_tensors());
  test::write_checkpoint(three.path(), kConfig, sound_tensors(), 3);
  expect_sound(one.path());
  expect_sound(three.path());
  const auto a = Checkpoint::open(one.path());
  const auto b = Checkpoint::open(three.path());
  EXPECT_EQ((*a)->tensor_names(), (*b)->tensor_names());
  EXPECT_EQ((*a)->fingerprint(), (*b)->fingerprint());
}

TEST(Checkpoint, TheFingerprintTellsModelsApart) {
  const auto fingerprint = [](std::string_view config, const std::vector<TensorToWrite>& tensors) {
    const ScratchDir folder;
    test::write_checkpoint(folder.path(), config, tensors);
    return (*Checkpoint::open(folder.path()))->fingerprint();
  };
  const std::string first = fingerprint(kConfig, sound_tensors());
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(first.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(first, fingerprint(kConfig, sound_tensors()));
  EXPECT_NE(first, fingerprint(kConfig, sound_tensors(2)));
  EXPECT_NE(first, fingerprint(std::string(kConfig) + " ", sound_tensors()));
  std::vector<TensorToWrite> other = sound_tensors();
  other.front().bytes.back() ^= 1;
  EXPECT_NE(first, fingerprint(kConfig, other));
  // Fields that nobody reads count too; the tensors' shapes follow from the config.
  EXPECT_NE(first, fingerprint(R"({"x":1,)" + std::string(kConfig.substr(1)), sound_tensors()));
}

TEST(Checkpoint, WhatIsMissingIsNamed) {
  const ScratchDir folder;
  EXPECT_EQ(error_of("/no/such/model").code, Errc::kNotFound);
  EXPECT_EQ(error_of(folder.path()).param, folder.path() + "/config.json");
  folder.write("config.json", kConfig);
  EXPECT_EQ(error_of(folder.path()).code, Errc::kNotFound);
  folder.write("pytorch_model.bin", "");
  EXPECT_EQ(error_of(folder.path()).code, Errc::kUnsupported);
  EXPECT_NE(error_of(folder.path()).message.find("convert"), std::string::npos);
}

TEST(Checkpoint, FaultsOfTheConfigsAreNamedWithTheirFolder) {
  const ScratchDir folder;
  test::write_checkpoint(folder.path(), R"({"model_type":"mamba"})", sound_tensors());
  EXPECT_EQ(error_of(folder.path()).param, "vocab_size");
  EXPECT_NE(error_of(folder.path()).message.find(folder.path()), std::string::npos);
  folder.write("config.json", kConfig);
  folder.write("generation_config.json", R"({"eos_token_id": [1, 2]})");
  EXPECT_EQ((*Checkpoint::open(folder.path()))->config().eos_ids, (std::vector<int32_t>{1, 2}));
  folder.write("generation_config.json", "[]");
  EXPECT_EQ(error_of(folder.path()).param, "generation_config.json");
  for (const std::string name : {"generation_config.json", "config.json"}) {
    const std::string path = folder.path() + "/" + name;
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    EXPECT_EQ(error_of(folder.path()).code, Errc::kIo);
    EXPECT_EQ(error_of(folder.path()).param, path);
    std::filesystem::remove(path);
    std::filesystem::create_symlink("nowhere", path);
    EXPECT_EQ(error_of(folder.path()).param, path) << "what is meant to be read is not passed over";
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(error_of(folder.path()).code, Errc::kIo);
    std::filesystem::remove(path);
  }
}

TEST(Checkpoint, TensorsThatDoNotFitTheConfigAreNamed) {
  const std::string x_proj = "backbone.layers.1.mixer.x_proj.weight";
  EXPECT_EQ(error_with([](auto&) {}).message, "");
  EXPECT_EQ(error_with([&](auto& tensors) { named(tensors, x_proj).name += "s"; }).param, x_proj);
  EXPECT_EQ(error_with([&](auto& tensors) {
              std::swap(named(tensors, x_proj).shape[0], named(tensors, x_proj).shape[1]);
            }).param,
            x_proj);
  const Error dtype = error_with([&](auto& tensors) { named(tensors, x_proj).dtype = DType::kI32; });
  EXPECT_EQ(dtype.code, Errc::kUnsupported);
  EXPECT_EQ(dtype.param, x_proj);
  const Error extra = error_with([](auto& tensors) { tensors.push_back({"extra", DType::kF32, {1}, "abcd"}); });
  EXPECT_EQ(extra.param, "extra");
  const auto third_layer = [](auto& tensors) {
    tensors.push_back({"backbone.layers.2.norm.weight", DType::kF32, {0}, ""});
  };
  EXPECT_EQ(error_with(third_layer).param, "backbone.layers.2.norm.weight");
}

TEST(Checkpoint, AStoredCopyOfATiedHeadIsHarmless) {
  const auto store_head = [](auto& tensors) {
    TensorToWrite head = named(tensors, "backbone.embeddings.weight");
    head.name = "lm_head.weight";
    tensors.push_back(head);
  };
  EXPECT_EQ(error_with(store_head).message, "");
}

class CheckpointIndex : public ::testing::Test {
 protected:
  void SetUp() override {
    test::write_checkpoint(folder_.path(), kConfig, sound_tensors(), 2);
    index_ = test::read_file(folder_.path() + "/" + kIndexName);
  }
  Error error_with_index(const std::string& index) {
    folder_.write(kIndexName, index);
    return error_of(folder_.path());
  }
  std::string replaced(const std::string& from, const std::string& to) const {
    std::string text = index_;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos);
    return text.replace(at, from.size(), to);
  }

  static constexpr const char* kIndexName = "model.safetensors.index.json";
  const std::string first_ = "model-00001-of-00002.safetensors";
  const std::string second_ = "model-00002-of-00002.safetensors";
  const std::string tensor_ = "backbone.embeddings.weight";  // in the first file
  ScratchDir folder_;
  std::string index_;
};

TEST_F(CheckpointIndex, AMissingFileIsNamed) {
  std::filesystem::remove(folder_.path() + "/" + second_);
  const Error error = error_of(folder_.path());
  EXPECT_EQ(error.code, Errc::kNotFound);
  EXPECT_EQ(error.param, folder_.path() + "/" + second_);
}

TEST_F(CheckpointIndex, ATensorInAnotherFileIsNamed) {
  const Error error = error_with_index(replaced(tensor_ + "\":\"" + first_, tensor_ + "\":\"" + second_));
  EXPECT_EQ(error.param, tensor_);
}

TEST_F(CheckpointIndex, ATensorThatIsNowhereIsNamed) {
  EXPECT_EQ(error_with_index(replaced(tensor_, "absent")).param, "absent");
}

TEST_F(CheckpointIndex, ATensorThatTheIndexLacksIsNamed) {
  EXPECT_EQ(error_with_index(replaced("\"" + tensor_ + "\":\"" + first_ + "\",", "")).param, tensor_);
}

TEST_F(CheckpointIndex, ATensorInTwoFilesIsNamed) {
  std::vector<TensorToWrite> tensors = sound_tensors();
  std::vector<TensorToWrite> part;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i % 2 == 1 || i == 0) part.push_back(tensors[i]);
  }
  folder_.write(second_, test::safetensors_file(part));
  EXPECT_EQ(error_of(folder_.path()).param, tensor_);
}

TEST_F(CheckpointIndex, WhatIsNoRegularFileIsNamed) {
  const std::string path = folder_.path() + "/" + second_;
  const auto put = [&](const std::function<void()>& make) {
    std::filesystem::remove(path);
    make();
    return error_of(folder_.path());
  };
  for (const Error& error :
       {put([&] { std::filesystem::create_directory(path); }), put([&] { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); }),
        put([&] { std::filesystem::create_symlink(second_, path); }),
        put([&] { std::filesystem::create_symlink("/dev/zero", path); })}) {
    EXPECT_EQ(error.code, Errc::kIo);
    EXPECT_EQ(error.param, path);
    EXPECT_NE(error.message.find(path), std::string::npos);
  }
  EXPECT_EQ(put([&] { std::filesystem::create_symlink("nowhere", path); }).code, Errc::kNotFound);
}

TEST_F(CheckpointIndex, WhatIsNoIndexIsRefused) {
  const std::string path = folder_.path() + "/" + kIndexName;
  for (const std::string text : {"", "{", "[]", "{}", R"({"weight_map":"a"})", R"({"metadata":{"weight_map":{}}})",
                                 R"({"weight_map":[{}]})", R"({"weight_map":{},"weight_map":{}})"}) {
    EXPECT_EQ(error_with_index(text).param, path) << text;
  }
  EXPECT_EQ(error_with_index("{\"metadata\":" + std::string(100'000, '[')).param, path);
  for (const std::string file : {"null", "1", "{}", "[\"model.safetensors\"]", "\"../model.safetensors\"",
                                 "\"/etc/x.safetensors\"", "\".hidden.safetensors\"", "\"model.bin\"", "\"\""}) {
    EXPECT_EQ(error_with_index("{\"weight_map\":{\"t\":" + file + "}}").param, "t") << file;
  }
  EXPECT_EQ(error_with_index(R"({"weight_map":{"t":"a.safetensors","t":"a.safetensors"}})").param, "t");
}

TEST_F(CheckpointIndex, ASingleFileTakesPrecedence) {
  folder_.write(kIndexName, "{");
  folder_.write("model.safetensors", test::safetensors_file(sound_tensors()));
  expect_sound(folder_.path());
}

TEST(Checkpoint, AnOptionalTensorMayBeAbsent) {
  const auto checkpoint = Checkpoint::open(test::golden_path("models/mamba"));
  ASSERT_TRUE(checkpoint.ok());
  TensorSpec spec{.name = "absent", .shape = {1}, .optional = true};
  const auto reader = (*checkpoint)->slice(spec, Partition{}, 0);
  ASSERT_TRUE(reader.ok());
  EXPECT_FALSE(reader->has_value());
  spec.optional = false;
  const auto missing = (*checkpoint)->slice(spec, Partition{}, 0);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().param, "absent");
}

}  // namespace
}  // namespace krait
