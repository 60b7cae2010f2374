#include "common/weights/slice_reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "common/model/model_plan.h"
#include "common/tensor/half.h"
#include "common/weights/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/safetensors_writer.h"

namespace krait {
namespace {

std::vector<float> read(SliceReader& reader) {
  std::vector<float> values(static_cast<size_t>(reader.rows() * reader.row_elements()));
  EXPECT_TRUE(reader.read_all(values).ok());
  return values;
}

/// Where element `index` of the whole tensor lies along the cut axis.
int64_t along_axis(const Shape& shape, int axis, int64_t index) {
  int64_t inner = 1;
  for (size_t i = static_cast<size_t>(axis) + 1; i < shape.size(); ++i)
    inner *= shape[i];
  return index / inner % shape[static_cast<size_t>(axis)];
}

/// Whether a unit of the rank's range uses that piece.
bool holds(const Segment& segment, const Partition& partition, int rank, int64_t piece) {
  if (segment.kind == Segment::Kind::kWhole) return true;
  const int64_t units = partition.of(segment.unit).back().end;
  const Range range = partition.range(segment.unit, rank);
  for (int64_t unit = range.begin; unit < range.end; ++unit) {
    const int64_t used = segment.kind == Segment::Kind::kCover ? unit / (units / segment.count) : unit - segment.first;
    if (used == piece) return true;
  }
  return false;
}

/// The slice by the plainest way: each element of the whole is asked whether the rank holds it, segment by segment. It
/// gives the right order as long as parts ascend, which segments of one axis do.
std::vector<float> expected_slice(const TensorSpec& spec, const Partition& partition, int rank,
                                  const std::vector<float>& whole) {
  std::vector<float> slice;
  for (size_t i = 0; i < whole.size(); ++i) {
    bool held = spec.cut.whole();
    if (!held) {
      int64_t at = along_axis(spec.shape, spec.cut.axis, static_cast<int64_t>(i));
      for (const Segment& segment : spec.cut.segments) {
        if (at < segment.elements()) {
          held = holds(segment, partition, rank, at / segment.width);
          break;
        }
        at -= segment.elements();
      }
    }
    if (held) slice.push_back(whole[i]);
  }
  return slice;
}

/// Every tensor of a random model: each rank's slice is right, and the slices together hold every element once.
void check_all_slices(const std::string& config_json, int world, std::vector<double> shares = {}) {
  const test::ScratchDir folder;
  const auto config = parse_model_config(config_json);
  ASSERT_TRUE(config.ok()) << to_string(config.error());
  const auto plan = make_model_plan(*config);
  test::write_checkpoint(folder.path(), config_json, test::random_tensors(*plan, 3));
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << to_string(checkpoint.error());
  const auto partition = make_partition(*config, world, shares);
  ASSERT_TRUE(partition.ok());
  for (const BlockPlan& block : plan->blocks) {
    for (const TensorSpec& spec : block.tensors) {
      const CheckpointTensor& at = *(*checkpoint)->find(spec.stored_name());
      std::vector<float> stored(static_cast<size_t>(at.tensor->elements()));
      ASSERT_TRUE(at.source->read(*at.tensor, 0, std::as_writable_bytes(std::span(stored))).ok());
      std::vector<float> whole;
      for (const int64_t element : test::stored_elements(spec))
        whole.push_back(stored.at(static_cast<size_t>(element)));
      size_t together = 0;
      for (int rank = 0; rank < world; ++rank) {
        auto reader = (*checkpoint)->slice(spec, *partition, rank);
        ASSERT_TRUE(reader.ok() && reader->has_value());
        EXPECT_EQ((*reader)->local_shape(), local_shape(spec, *partition, rank));
        const std::vector<float> slice = read(**reader);
        ASSERT_EQ(slice, expected_slice(spec, *partition, rank, whole)) << spec.name << " rank " << rank;
        EXPECT_EQ((*reader)->nonfinite(), 0);
        together += slice.size();
      }
      const bool covers = !spec.cut.whole() && spec.cut.segments[0].kind == Segment::Kind::kCover;
      if (covers) {
        EXPECT_GE(together, whole.size()) << spec.name;
      } else {
        EXPECT_EQ(together, spec.cut.whole() ? whole.size() * static_cast<size_t>(world) : whole.size()) << spec.name;
      }
    }
  }
}

std::string config_json(int hidden, int inner, int vocab) {
  return fmt::format(R"({{"model_type":"mamba","hidden_size":{},"intermediate_size":{},"vocab_size":{},)"
                     R"("num_hidden_layers":1,"state_size":5,"conv_kernel":3,"use_bias":true,)"
                     R"("tie_word_embeddings":false}})",
                     hidden, inner, vocab);
}

TEST(SliceReader, SlicesOfAllRanksMakeTheWhole) {
  for (int world = 1; world <= limits::kMaxWorld; ++world) {
    check_all_slices(config_json(24, 64, 80), world);
    check_all_slices(config_json(20, 100, 77), world);  // short last blocks, unaligned
    check_all_slices(config_json(7, 19, 5), world);     // more ranks than blocks: empty slices
  }
  check_all_slices(config_json(20, 100, 77), 3, {5, 1, 2});
}

TEST(SliceReader, PackedTensorsOfEveryFamily) {
  const char* const configs[] = {
      R"({"model_type": "mamba2", "hidden_size": 12, "expand": 3, "num_heads": 6, "head_dim": 6, "n_groups": 3,
          "state_size": 5, "conv_kernel": 3, "num_hidden_layers": 1, "vocab_size": 33, "use_bias": true})",
      R"({"model_type": "zamba", "hidden_size": 12, "mamba_expand": 3, "n_mamba_heads": 3, "mamba_d_state": 5,
          "mamba_dt_rank": 2, "mamba_proj_bias": true, "num_attention_heads": 6, "num_key_value_heads": 2,
          "intermediate_size": 20, "layers_block_type": ["mamba", "hybrid", "hybrid"], "num_hidden_layers": 3,
          "vocab_size": 33})",
      R"({"model_type": "zamba2", "hidden_size": 12, "mamba_headdim": 4, "mamba_ngroups": 2, "mamba_d_state": 5,
          "num_attention_heads": 4, "intermediate_size": 20, "adapter_rank": 3, "num_mem_blocks": 2,
          "use_shared_attention_adapter": true, "layers_block_type": ["hybrid", "m", "g", "hybrid"],
          "num_hidden_layers": 4, "vocab_size": 33})"};
  for (const char* config : configs) {
    for (int world = 1; world <= limits::kMaxWorld; ++world)
      check_all_slices(config, world);
    check_all_slices(config, 3, {5, 1, 2});
  }
}

TEST(SliceReader, AnInnerCutAxisIsFollowed) {
  // [2, 6, 1, 3] cut along its second axis: no Mamba-1 tensor is so, tensors with a leading head axis are.
  Shape shape{2, 6, 1, 3};
  std::vector<float> whole(36);
  for (size_t i = 0; i < whole.size(); ++i)
    whole[i] = static_cast<float>(i);
  const test::ScratchDir folder;
  const std::vector<test::TensorToWrite> tensors{{"t", DType::kF32, shape, test::encode_floats(whole, DType::kF32)}};
  const auto file = SafetensorsFile::open(folder.write("f", test::safetensors_file(tensors)));
  ASSERT_TRUE(file.ok());
  Partition partition{.world = 2};
  partition.ranges[0] = {{0, 1}, {1, 3}};
  const Segment half{.kind = Segment::Kind::kCut, .unit = Unit::kChannel, .count = 3};
  const TensorSpec spec{.name = "t", .shape = shape, .cut = {.axis = 1, .segments = {half, half}}};
  for (int rank = 0; rank < 2; ++rank) {
    auto reader = SliceReader::make(*file, *(*file)->find("t"), spec, partition, rank);
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ(read(*reader), expected_slice(spec, partition, rank, whole)) << rank;
  }
}

TEST(SliceReader, RowsMayBeReadInAnyOrder) {
  const auto checkpoint = Checkpoint::open(test::golden_path("models/mamba"));
  ASSERT_TRUE(checkpoint.ok()) << to_string(checkpoint.error());
  const auto plan = make_model_plan((*checkpoint)->config());
  const auto partition = make_partition((*checkpoint)->config(), 3);
  const TensorSpec& spec = *plan->blocks[1].find("in_proj_z.weight");
  auto forward = (*checkpoint)->slice(spec, *partition, 2);
  auto backward = (*checkpoint)->slice(spec, *partition, 2);
  const std::vector<float> all = read(**forward);
  std::vector<float> row(static_cast<size_t>((*backward)->row_elements()));
  for (int64_t i = (*backward)->rows() - 1; i >= 0; --i) {
    ASSERT_TRUE((*backward)->read_row(i, row).ok());
    EXPECT_EQ(std::memcmp(row.data(), all.data() + i * (*backward)->row_elements(), row.size() * sizeof(float)), 0);
  }
}

TEST(SliceReader, EveryFloatDtypeBecomesFloat32AndOddAddressesDoNoHarm) {
  const std::vector<float> values{0, -0.0f, 1, -2.5f, 0.333251953125f, 65504, 0x1.0p-24f, 0x1.8p-20f};
  const std::vector<float> rounded{0, -0.0f, 1, -2.5f, 0.333984375f, 65536, 0x1.0p-24f, 0x1.8p-20f};
  for (const auto& [dtype, expected] :
       {std::pair{DType::kF32, values}, {DType::kF16, values}, {DType::kBF16, rounded}}) {
    const test::ScratchDir folder;
    const std::vector<test::TensorToWrite> tensors{{"odd", DType::kU8, {1}, "x"},
                                                   {"t", dtype, {2, 4}, test::encode_floats(values, dtype)}};
    const auto file = SafetensorsFile::open(folder.write("f", test::safetensors_file(tensors)));
    ASSERT_TRUE(file.ok());
    const TensorSpec spec{.name = "t", .shape = {2, 4}};
    auto reader = SliceReader::make(*file, *(*file)->find("t"), spec, Partition{}, 0);
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ(reader->stored_dtype(), dtype);
    const std::vector<float> got = read(*reader);
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0) << dtype_name(dtype);
  }
}

TEST(SliceReader, CountsWhatIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values{1, inf, -inf, std::numeric_limits<float>::quiet_NaN(), 3.4e38f, 0};
  const test::ScratchDir folder;
  const std::vector<test::TensorToWrite> tensors{{"t", DType::kF32, {6}, test::encode_floats(values, DType::kF32)}};
  const auto file = SafetensorsFile::open(folder.write("f", test::safetensors_file(tensors)));
  const TensorSpec spec{.name = "t", .shape = {6}};
  auto reader = SliceReader::make(*file, *(*file)->find("t"), spec, Partition{}, 0);
  ASSERT_TRUE(reader.ok());
  read(*reader);
  EXPECT_EQ(reader->nonfinite(), 3);
}

TEST(SliceReader, AnotherShapeOrDtypeIsRefused) {
  const test::ScratchDir folder;
  const std::vector<test::TensorToWrite> tensors{{"t", DType::kI32, {6}, std::string(24, 'x')},
                                                 {"u", DType::kF32, {6}, std::string(24, 'x')}};
  const auto file = SafetensorsFile::open(folder.write("f", test::safetensors_file(tensors)));
  const auto dtype = SliceReader::make(*file, *(*file)->find("t"), {.name = "t", .shape = {6}}, Partition{}, 0);
  ASSERT_FALSE(dtype.ok());
  EXPECT_EQ(dtype.error().code, Errc::kUnsupported);
  EXPECT_EQ(dtype.error().param, "t");
  const auto shape = SliceReader::make(*file, *(*file)->find("u"), {.name = "u", .shape = {2, 3}}, Partition{}, 0);
  ASSERT_FALSE(shape.ok());
  EXPECT_EQ(shape.error().param, "u");
}

}  // namespace
}  // namespace krait
