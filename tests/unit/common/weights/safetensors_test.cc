#include "common/weights/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "common/base/rng.h"
#include "common/weights/safetensors_header.h"
#include "tests/support/golden.h"
#include "tests/support/safetensors_writer.h"

namespace krait {
namespace {

using test::safetensors_file;

float float_at(const SafetensorsFile& file, const StoredTensor& tensor, int64_t index) {
  float value = 0;
  EXPECT_TRUE(file.read(tensor, index * 4, std::as_writable_bytes(std::span(&value, 1))).ok());
  return value;
}

TEST(Safetensors, ReadsWhatAnotherImplementationWrote) {
  // Shapes and values as Python's struct module reads them out of the file.
  const auto file = SafetensorsFile::open(test::golden_path("models/mamba/model.safetensors"));
  ASSERT_TRUE(file.ok()) << to_string(file.error());
  EXPECT_EQ((*file)->tensors().size(), 42u);
  const StoredTensor* view = (*file)->find("backbone.layers.2.mixer.x_proj.weight");
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->dtype, DType::kF32);
  EXPECT_EQ(view->shape, (Shape{36, 128}));
  EXPECT_EQ(float_at(**file, *view, 0), -0x1.8b06e40000000p-7f);
  EXPECT_EQ(float_at(**file, *view, 36 * 128 - 1), -0x1.73cb080000000p-3f);
  EXPECT_EQ((*file)->find("no such tensor"), nullptr);
}

TEST(Safetensors, ReadsWhatTheTestsWrite) {
  const std::vector<test::TensorToWrite> tensors{{"b", DType::kI32, {2, 3}, std::string(24, '\x01')},
                                                 {"empty", DType::kF32, {0, 7}, ""},
                                                 {"a", DType::kBF16, {3}, "abcdef"},
                                                 {"scalar", DType::kU8, {}, "x"}};
  const test::ScratchDir folder;
  const auto file = SafetensorsFile::open(folder.write("f", safetensors_file(tensors)));
  ASSERT_TRUE(file.ok()) << to_string(file.error());
  ASSERT_EQ((*file)->tensors().size(), tensors.size());
  for (const test::TensorToWrite& tensor : tensors) {
    const StoredTensor* view = (*file)->find(tensor.name);
    ASSERT_NE(view, nullptr) << tensor.name;
    EXPECT_EQ(view->dtype, tensor.dtype);
    EXPECT_EQ(view->shape, tensor.shape);
    std::string bytes(static_cast<size_t>(view->bytes()), '\0');
    ASSERT_TRUE((*file)->read(*view, 0, std::as_writable_bytes(std::span(bytes))).ok());
    EXPECT_EQ(bytes, tensor.bytes);
  }
}

TEST(Safetensors, PaddingAndMetadataAreTaken) {
  const test::ScratchDir folder;
  const std::string header =
      R"( {"__metadata__":{"format":"pt","a":"b"},"t":{"shape":[1],"data_offsets":[0,4],"dtype":"F32"}}   )";
  EXPECT_TRUE(SafetensorsFile::open(folder.write("f", safetensors_file(header, "abcd"))).ok());
  EXPECT_TRUE(SafetensorsFile::open(folder.write("g", safetensors_file("{}", ""))).ok());
}

struct BadFile final {
  std::string what;
  std::string bytes;
  std::string param = "t";  // "" for the path
  Errc code = Errc::kCorrupt;
};

void PrintTo(const BadFile& bad, std::ostream* out) {
  *out << bad.what;
}

/// A file whose tensor "t" is described so; 16 bytes of data.
BadFile described(std::string what, const std::string& fields, Errc code = Errc::kCorrupt) {
  return {std::move(what), safetensors_file("{\"t\":{" + fields + "}}", std::string(16, 'x')), "t", code};
}

BadFile header(std::string what, const std::string& json, std::string param, size_t data_bytes = 16) {
  return {std::move(what), safetensors_file(json, std::string(data_bytes, 'x')), std::move(param)};
}

std::string with_length(uint64_t length, const std::string& rest) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + rest;
}

class BadSafetensors : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadSafetensors, IsRefusedByFileAndTensor) {
  const test::ScratchDir folder;
  const std::string path = folder.write("bad.safetensors", GetParam().bytes);
  const auto file = SafetensorsFile::open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, GetParam().code) << to_string(file.error());
  EXPECT_NE(file.error().message.find(path), std::string::npos) << file.error().message;
  EXPECT_EQ(file.error().param, GetParam().param.empty() ? path : GetParam().param) << to_string(file.error());
}

INSTANTIATE_TEST_SUITE_P(Lengths, BadSafetensors,
                         ::testing::Values(BadFile{"empty", "", ""}, BadFile{"seven bytes", "1234567", ""},
                                           BadFile{"no header", with_length(0, ""), ""},
                                           BadFile{"header longer than the file", with_length(3, "{}"), ""},
                                           BadFile{"a NUL byte behind the JSON",
                                                   with_length(4, std::string("{}\0 ", 4)), ""},
                                           BadFile{"length of all ones", with_length(~uint64_t{0}, "{}"), ""},
                                           BadFile{"length near overflow", with_length(~uint64_t{0} - 7, "{}"), ""}));

INSTANTIATE_TEST_SUITE_P(Json, BadSafetensors,
                         ::testing::Values(header("not JSON", "{", ""), header("bytes after JSON", "{}x", ""),
                                           header("a list", "[]", ""), header("a number", "1", ""),
                                           header("invalid UTF-8", "{\"\xff\":{}}", ""),
                                           header("deep nesting", std::string(100'000, '['), ""),
                                           header("deep metadata", R"({"__metadata__":{"a":{"b":"c"}}})", ""),
                                           header("number in metadata", R"({"__metadata__":{"a":1}})", ""),
                                           header("tensor that is null", R"({"t":null})", "t"),
                                           header("tensor that is a list", R"({"t":[1]})", "t"),
                                           header("tensor that is a string", R"({"t":"F32"})", "t"),
                                           header("duplicate name",
                                                  R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                                  R"("t":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                                                  "t")));

INSTANTIATE_TEST_SUITE_P(
    Fields, BadSafetensors,
    ::testing::Values(
        described("nothing", ""), described("no dtype", R"("shape":[4],"data_offsets":[0,16])"),
        described("no shape", R"("dtype":"F32","data_offsets":[0,16])"),
        described("no offsets", R"("dtype":"F32","shape":[4])"),
        described("unknown dtype", R"("dtype":"F8_E4M3","shape":[16],"data_offsets":[0,16])", Errc::kUnsupported),
        described("dtype that is a number", R"("dtype":5,"shape":[4],"data_offsets":[0,16])"),
        described("unknown field", R"("dtype":"F32","shape":[4],"data_offsets":[0,16],"more":[1])"),
        described("field twice", R"("dtype":"F32","shape":[4],"shape":[4],"data_offsets":[0,16])"),
        described("one offset", R"("dtype":"F32","shape":[4],"data_offsets":[16])"),
        described("three offsets", R"("dtype":"F32","shape":[4],"data_offsets":[0,8,16])"),
        described("negative extent", R"("dtype":"F32","shape":[-4],"data_offsets":[0,16])"),
        described("fraction", R"("dtype":"F32","shape":[4.0],"data_offsets":[0,16])"),
        described("extent beyond 63 bits", R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,16])"),
        described("nested shape", R"("dtype":"F32","shape":[[4]],"data_offsets":[0,16])"),
        described("nine axes", R"("dtype":"F32","shape":[4,1,1,1,1,1,1,1,1],"data_offsets":[0,16])")));

INSTANTIATE_TEST_SUITE_P(
    Layout, BadSafetensors,
    ::testing::Values(
        described("too few bytes for the shape", R"("dtype":"F32","shape":[5],"data_offsets":[0,16])"),
        described("too many bytes for the shape", R"("dtype":"F32","shape":[3],"data_offsets":[0,16])"),
        described("shape that overflows", R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"),
        described("shape that overflows to the right size",
                  R"("dtype":"F32","shape":[4611686018427387908],"data_offsets":[0,16])"),
        described("overflow before a zero", R"("dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0])"),
        described("offsets beyond 63 bits", R"("dtype":"F32","shape":[4],"data_offsets":[0,18446744073709551616])"),
        described("offset of all ones", R"("dtype":"F32","shape":[4],"data_offsets":[18446744073709551600,0])"),
        described("negative offset", R"("dtype":"F32","shape":[4],"data_offsets":[-16,0])"),
        described("offset that is a fraction", R"("dtype":"F32","shape":[4],"data_offsets":[0.0,16])"),
        described("offset with an exponent", R"("dtype":"F32","shape":[4],"data_offsets":[0,16e0])"),
        described("offset that is a string", R"("dtype":"F32","shape":[4],"data_offsets":["0",16])"),
        described("an empty tensor where there are bytes", R"("dtype":"F32","shape":[0],"data_offsets":[0,16])"),
        described("end before begin", R"("dtype":"F32","shape":[4],"data_offsets":[16,0])"),
        described("end outside the file", R"("dtype":"F32","shape":[5],"data_offsets":[0,20])"),
        described("a gap before", R"("dtype":"F32","shape":[3],"data_offsets":[4,16])"),
        header("an empty tensor outside the data",
               R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
               R"("t":{"dtype":"F32","shape":[0],"data_offsets":[20,20]}})",
               "t"),
        header("an empty tensor inside another",
               R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
               R"("t":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}})",
               "t"),
        header("a name of 300 bytes",
               R"({")" + std::string(300, 'n') + R"(":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
               std::string(256, 'n')),
        header("bytes after the last tensor", R"({"t":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", ""),
        header("data without tensors", "{}", ""),
        header("overlap",
               R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)"
               R"("t":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
               "t"),
        header("the same bytes twice",
               R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
               R"("t":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
               "t"),
        header("cut off", R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", "t", 15)));

TEST(Safetensors, WhatIsNoFileIsRefused) {
  const auto missing = SafetensorsFile::open("/no/such/file.safetensors");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Errc::kNotFound);
  EXPECT_EQ(missing.error().param, "/no/such/file.safetensors");
  const test::ScratchDir folder;
  EXPECT_FALSE(SafetensorsFile::open(folder.path()).ok());
}

TEST(Safetensors, ATextInItsPlaceIsTold) {
  const test::ScratchDir folder;
  const auto refused = [&](std::string_view content) {
    const auto file = SafetensorsFile::open(folder.write("f", content));
    EXPECT_FALSE(file.ok());
    return file.error().message;
  };
  EXPECT_EQ(
      refused("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 516567560\n"),
      folder.path() + "/f is a pointer of Git LFS, not the file that it stands for: fetch that with 'git lfs pull'");
  EXPECT_EQ(
      refused("<!DOCTYPE html>\n<html class=\"\">\n"),
      folder.path() + "/f is no safetensors file but a text that begins with '<!DOCTYPE html> <html class=\"\"> '");
  EXPECT_NE(refused(std::string(40, '\xff')).find("header of"), std::string::npos);
}

TEST(Safetensors, AHeaderOverTheLimitIsNotRead) {
  const test::ScratchDir folder;
  const std::string path = folder.write("f", with_length(uint64_t{100} << 20 | 1, "{"));
  std::filesystem::resize_file(path, uint64_t{200} << 20);  // a hole: no disk is used
  const auto file = SafetensorsFile::open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().param, path);
  EXPECT_NE(file.error().message.find("header of 104857601 bytes"), std::string::npos) << file.error().message;
}

TEST(Safetensors, RandomDamageNeverGivesATensorOutsideTheData) {
  const std::string file = test::read_file(test::golden_path("models/mamba/model.safetensors"));
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  const std::string sound = file.substr(sizeof(header_bytes), header_bytes);
  const auto data_bytes = static_cast<int64_t>(file.size() - sizeof(header_bytes) - header_bytes);
  ASSERT_TRUE(parse_safetensors_header(sound, data_bytes, "f").ok());
  SplitMix64 random(7);
  int taken = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string header = sound;
    for (uint64_t flips = 1 + random.below(3); flips > 0; --flips) {
      header[random.below(header.size())] =
          static_cast<char>(random.below(4) == 0 ? random.next() : '0' + random.below(10));
    }
    const auto entries = parse_safetensors_header(header, data_bytes, "f");
    if (!entries.ok()) continue;
    ++taken;
    int64_t at = 0;
    for (const SafetensorsEntry& entry : *entries) {
      ASSERT_EQ(entry.begin, at);
      ASSERT_EQ((StoredTensor{entry.dtype, entry.shape}.bytes()), entry.end - entry.begin);
      at = entry.end;
    }
    ASSERT_EQ(at, data_bytes);
  }
  EXPECT_GT(taken, 0);     // damage to a name is still a file
  EXPECT_LT(taken, 5000);  // other damage is not
}

}  // namespace
}  // namespace krait
