#include "common/weights/gguf.h"

#include <gtest/gtest.h>

#include "common/base/limits.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/golden.h"

namespace krait::test {
namespace {

std::string bytes_of(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i)
    bytes.push_back(static_cast<char>(i));
  return bytes;
}

std::string array_of(GgufType element, uint64_t count, std::string_view elements) {
  return (gguf_bytes(static_cast<uint32_t>(element)) + gguf_bytes(count)).append(elements);
}

/// Every type of value, arrays inside arrays, and tensors of three types.
GgufWriter sound_writer() {
  GgufWriter writer;
  writer.text("general.name", "a name").integer("u32", 7).number("f32", 0.5f).flag("flag", true);
  writer.key("u8", GgufType::kU8, "\x05").key("i8", GgufType::kI8, "\xff");
  writer.key("u16", GgufType::kU16, gguf_bytes<uint16_t>(60'000)).key("i16", GgufType::kI16, gguf_bytes<int16_t>(-2));
  writer.key("i32", GgufType::kI32, gguf_bytes<int32_t>(-3)).key("i64", GgufType::kI64, gguf_bytes<int64_t>(-4));
  writer.key("u64", GgufType::kU64, gguf_bytes<uint64_t>(9)).key("f64", GgufType::kF64, gguf_bytes(0.25));
  writer.key("huge", GgufType::kU64, gguf_bytes(~uint64_t{0}));
  writer.texts("words", std::vector<std::string>{"one", "", "two"});
  writer.key("numbers", GgufType::kArray, array_of(GgufType::kI16, 3, bytes_of(6)));
  writer.key("fractions", GgufType::kArray, array_of(GgufType::kF32, 1, gguf_bytes(1.5f)));
  writer.key(
      "nested", GgufType::kArray,
      array_of(GgufType::kArray, 2, array_of(GgufType::kU8, 1, "x") + array_of(GgufType::kText, 1, gguf_text("y"))));
  writer.tensor({"a", 0, {2, 3}, bytes_of(24)});
  writer.tensor({"b", 8, {1, 1, 32}, bytes_of(34)});
  writer.tensor({"c", 30, {5}, bytes_of(10)});
  return writer;
}

Result<std::shared_ptr<const GgufFile>> open(std::string_view bytes) {
  const ScratchDir folder;
  return GgufFile::open(folder.write("m.gguf", bytes));
}

TEST(Gguf, AFileIsReadWhole) {
  for (const uint32_t version : {2u, 3u}) {
    const ScratchDir folder;
    const auto opened = GgufFile::open(folder.write("m.gguf", sound_writer().file(32, version)));
    ASSERT_TRUE(opened.ok()) << to_string(opened.error());
    const GgufFile& file = **opened;
    EXPECT_EQ(file.text("general.name").value(), "a name");
    EXPECT_EQ(file.text("absent").value(), std::nullopt);
    EXPECT_EQ(file.boolean("flag").value(), true);
    const std::vector<std::pair<const char*, int64_t>> integers{{"u32", 7},  {"u8", 5},   {"i8", -1},  {"u16", 60'000},
                                                                {"i16", -2}, {"i32", -3}, {"i64", -4}, {"u64", 9}};
    for (const auto& [key, value] : integers)
      EXPECT_EQ(file.integer(key).value(), value) << key;
    EXPECT_EQ(std::get<double>(file.metadata().find("f32")->second), 0.5);
    EXPECT_EQ(std::get<uint64_t>(file.metadata().find("huge")->second), ~uint64_t{0});
    EXPECT_EQ(file.texts("words").value(), (std::vector<std::string>{"one", "", "two"}));
    EXPECT_EQ(file.integers("numbers").value(), (std::vector<int64_t>{0x100, 0x302, 0x504}));
    EXPECT_EQ(file.numbers("fractions").value(), std::vector<double>{1.5});
    ASSERT_EQ(file.tensors().size(), 3u);
    EXPECT_EQ(file.find("a")->shape, (Shape{2, 3}));
    EXPECT_EQ(file.find("b")->shape, Shape{32}) << "leading axes of one are left out";
    EXPECT_EQ(file.find("b")->dtype, DType::kQ80);
    for (const auto& [name, tensor] : file.tensors()) {
      std::string bytes(static_cast<size_t>(tensor.bytes()), '\0');
      ASSERT_TRUE(file.read(tensor, 0, std::as_writable_bytes(std::span(bytes))).ok());
      EXPECT_EQ(bytes, bytes_of(static_cast<int>(bytes.size()))) << name;
    }
  }
}

TEST(Gguf, AFileCutShortAnywhereIsRefused) {
  const std::string whole = sound_writer().file();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const auto file = open(whole.substr(0, bytes));
    ASSERT_FALSE(file.ok()) << bytes << " of " << whole.size();
    EXPECT_EQ(file.error().code, Errc::kCorrupt) << to_string(file.error());
    EXPECT_NE(file.error().message.find("m.gguf: "), std::string::npos) << file.error().message;
  }
}

TEST(Gguf, AValueOfAnotherTypeIsNamed) {
  const ScratchDir folder;
  const auto file = GgufFile::open(folder.write("m.gguf", sound_writer().file())).value();
  const auto said = [](const auto& result) { return result.ok() ? "nothing" : result.error().message; };
  EXPECT_NE(said(file->text("u32")).find("key 'u32' is no text"), std::string::npos);
  EXPECT_NE(said(file->integer("huge")).find("key 'huge' is no integer of 63 bits"), std::string::npos);
  EXPECT_NE(said(file->boolean("u8")).find("key 'u8' is no truth value"), std::string::npos);
  EXPECT_NE(said(file->texts("numbers")).find("key 'numbers' is no array of texts"), std::string::npos);
  EXPECT_NE(said(file->integers("words")).find("key 'words' is no array of integers"), std::string::npos);
  EXPECT_NE(said(file->integers("nested")).find("key 'nested' has more than"), std::string::npos);
  EXPECT_NE(said(file->numbers("numbers")).find("key 'numbers' is no array of fractions"), std::string::npos);
  EXPECT_NE(said(file->texts("flag")).find("key 'flag' is no list"), std::string::npos);
}

TEST(Gguf, AListThatIsTooLongIsNotReadWhole) {
  const ScratchDir folder;
  const auto count = static_cast<uint64_t>(limits::kMaxVocab) + 1;
  GgufWriter writer;
  writer.key("k", GgufType::kArray, array_of(GgufType::kU8, count, std::string(count, 'x')));
  const auto file = GgufFile::open(folder.write("m.gguf", writer.file())).value();
  const auto list = file->integers("k");
  ASSERT_FALSE(list.ok());
  EXPECT_NE(list.error().message.find("key 'k' has 4194305 elements, more than 4194304"), std::string::npos)
      << list.error().message;
}

struct BadFile final {
  const char* what;
  std::string bytes;
  Errc code;
  const char* words;
};

GgufWriter with_tensor(GgufTensorToWrite tensor) {
  GgufWriter writer;
  writer.tensor(std::move(tensor));
  return writer;
}

/// One tensor whose entry says it begins there, and its data.
std::string tensor_at(uint64_t offset, std::string_view data) {
  return "GGUF" + gguf_bytes(3u) + gguf_bytes<uint64_t>(1) + gguf_bytes<uint64_t>(0) + gguf_text("t") + gguf_bytes(1u) +
         gguf_bytes<uint64_t>(8) + gguf_bytes(0u) + gguf_bytes(offset) + std::string(7, '\0') + std::string(data);
}

std::string start(uint32_t version, uint64_t tensors, uint64_t keys) {
  return "GGUF" + gguf_bytes(version) + gguf_bytes(tensors) + gguf_bytes(keys);
}

std::string nested_arrays(int depth) {
  std::string inner = array_of(GgufType::kU8, 0, "");
  for (int i = 1; i < depth; ++i)
    inner = array_of(GgufType::kArray, 1, inner);
  return GgufWriter().key("k", GgufType::kArray, inner).file();
}

std::vector<BadFile> bad_starts() {
  return {{"magic", "GGUE" + std::string(20, '\0'), Errc::kCorrupt, "is no GGUF file"},
          {"version 1", start(1, 0, 0), Errc::kUnsupported, "version 1; 2 and 3 are read"},
          {"version 4", start(4, 0, 0), Errc::kUnsupported, "version 4"},
          {"big-endian", start(3u << 24, 0, 0), Errc::kUnsupported, "is big-endian"},
          {"tensors", start(3, ~uint64_t{0}, 0), Errc::kCorrupt, "18446744073709551615 tensors"},
          {"keys", start(3, 0, uint64_t{1} << 40), Errc::kCorrupt, "1099511627776 keys"},
          {"split", GgufWriter().key("split.count", GgufType::kU16, gguf_bytes<uint16_t>(3)).file(), Errc::kUnsupported,
           "one of 3 parts"}};
}

std::vector<BadFile> bad_keys() {
  const auto key = [](GgufType type, std::string_view value) { return GgufWriter().key("k", type, value).file(); };
  return {
      {"type", key(static_cast<GgufType>(13), ""), Errc::kCorrupt, "key 'k' has the unknown type 13"},
      {"twice", GgufWriter().integer("k", 1).integer("k", 2).file(), Errc::kCorrupt, "key 'k' stands twice"},
      {"name", GgufWriter().integer("a b", 1).file(), Errc::kCorrupt, "'entry 0' has a name that is no printable"},
      {"no name", GgufWriter().integer("", 1).file(), Errc::kCorrupt, "'entry 0' has a name that is no printable"},
      {"long name", GgufWriter().integer(std::string(2000, 'k'), 1).file(), Errc::kCorrupt, "text of 2000 bytes"},
      {"truth", key(GgufType::kBool, "\x02"), Errc::kCorrupt, "the byte 2, which is neither"},
      {"text", key(GgufType::kText, gguf_bytes(~uint64_t{0})), Errc::kCorrupt, "text of 18446744073709551615 bytes"},
      {"array", key(GgufType::kArray, array_of(GgufType::kU32, uint64_t{1} << 62, "")), Errc::kCorrupt,
       "array of 4611686018427387904 elements"},
      {"array of texts", key(GgufType::kArray, array_of(GgufType::kText, 1, gguf_bytes(~uint64_t{0}))), Errc::kCorrupt,
       "key 'k' has a text of"},
      {"array's type", key(GgufType::kArray, array_of(static_cast<GgufType>(77), 1, "abcdefgh")), Errc::kCorrupt,
       "unknown type 77"},
      {"nesting", nested_arrays(limits::kMaxGgufNesting + 1), Errc::kCorrupt, "arrays inside each other"},
      {"alignment", GgufWriter().integer("general.alignment", 24).file(), Errc::kCorrupt,
       "'general.alignment' is no power of two"},
      {"alignment's type", GgufWriter().text("general.alignment", "32").file(), Errc::kCorrupt, "'general.alignment'"},
      {"large alignment", GgufWriter().integer("general.alignment", 1u << 30).file(), Errc::kCorrupt,
       "'general.alignment'"}};
}

std::vector<BadFile> bad_tensors() {
  const std::string block = bytes_of(34);
  GgufWriter twice;
  twice.tensor({"t", 0, {1}, bytes_of(4)}).tensor({"t", 0, {1}, bytes_of(4)});
  const int64_t large = int64_t{1} << 62;
  return {
      {"type", with_tensor({"t", 12, {256}, bytes_of(144)}).file(), Errc::kUnsupported, "tensor 't' is Q4_K (type 12)"},
      {"integers", with_tensor({"t", 26, {2}, bytes_of(8)}).file(), Errc::kUnsupported, "tensor 't' is I32"},
      {"unknown type", with_tensor({"t", 4000, {2}, bytes_of(8)}).file(), Errc::kUnsupported, "(type 4000)"},
      {"axes", with_tensor({"t", 0, {1, 1, 1, 1, 1}, bytes_of(4)}).file(), Errc::kCorrupt, "has 5 axes"},
      {"extent", with_tensor({"t", 0, {-1}, bytes_of(4)}).file(), Errc::kCorrupt, "18446744073709551615 elements"},
      {"size", with_tensor({"t", 0, {large, 2}, bytes_of(4)}).file(), Errc::kCorrupt, "a size beyond 63 bits"},
      {"blocks", with_tensor({"t", 8, {2, 33}, block}).file(), Errc::kCorrupt, "rows of 33 elements"},
      {"name", with_tensor({"t\n", 0, {1}, bytes_of(4)}).file(), Errc::kCorrupt, "'number 0' has a name"},
      {"twice", twice.file(), Errc::kCorrupt, "tensor 't' stands twice"},
      {"short", with_tensor({"t", 0, {3}, bytes_of(8)}).file(), Errc::kCorrupt, "tensor 't' has 12 bytes from byte 0"},
      {"gap", tensor_at(32, std::string(64, 'x')), Errc::kCorrupt,
       "begins at byte 32 of the data, after a gap from byte 0"},
      {"not aligned", tensor_at(4, std::string(36, 'x')), Errc::kCorrupt, "begins at byte 4"},
      {"beyond", tensor_at(uint64_t{1} << 63, std::string(32, 'x')), Errc::kCorrupt,
       "begins at byte 9223372036854775808"},
      {"far", tensor_at(uint64_t{1} << 40, std::string(32, 'x')), Errc::kCorrupt,
       "from byte 1099511627776 of the data"},
      {"behind", tensor_at(0, std::string(65, 'x')), Errc::kCorrupt, "33 bytes after the last tensor"}};
}

std::vector<BadFile> bad_files() {
  std::vector<BadFile> all = bad_starts();
  for (auto& more : {bad_keys(), bad_tensors()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

class BadGguf : public testing::TestWithParam<BadFile> {};

TEST_P(BadGguf, IsRefusedByFileAndWhatIsWrong) {
  const auto file = open(GetParam().bytes);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, GetParam().code) << to_string(file.error());
  EXPECT_NE(file.error().message.find("m.gguf: "), std::string::npos) << file.error().message;
  EXPECT_NE(file.error().message.find(GetParam().words), std::string::npos) << file.error().message;
}

INSTANTIATE_TEST_SUITE_P(Files, BadGguf, testing::ValuesIn(bad_files()), [](const auto& info) {
  std::string name = info.param.what;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return fmt::format("{}_{}", info.index, name);
});

TEST(Gguf, TensorsMayOverlapNowhere) {
  // Two tensors of 32 bytes whose second entry says that it begins inside the first.
  GgufWriter writer;
  writer.tensor({"a", 0, {16}, bytes_of(64)}).tensor({"b", 0, {8}, bytes_of(32)});
  std::string file = writer.file();
  const size_t entry = file.find(gguf_text("b"));
  file.replace(entry + 9 + 4 + 8 + 4, 8, gguf_bytes<uint64_t>(32));
  const auto opened = open(file);
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(
      opened.error().message.find("tensor 'b' begins at byte 32 of the data, inside another that ends at byte 64"),
      std::string::npos)
      << opened.error().message;
}

TEST(Gguf, AnotherAlignmentIsHeeded) {
  GgufWriter writer;
  writer.integer("general.alignment", 128).tensor({"a", 0, {1}, bytes_of(4)}).tensor({"b", 0, {1}, bytes_of(4)});
  const auto file = open(writer.file(128));
  ASSERT_TRUE(file.ok()) << to_string(file.error());
  EXPECT_EQ((*file)->find("b")->offset % 128, 0);
  EXPECT_EQ((*file)->find("b")->offset - (*file)->find("a")->offset, 128);
  EXPECT_FALSE(open(writer.file(32)).ok());
}

}  // namespace
}  // namespace krait::test
