// Every codec of codecs.def on every transport: the bits of the contract, written out plainly; errors against double
// arithmetic; what is not finite stays so.
#include <gtest/gtest.h>

#include <limits>
#include <numbers>

#include "kernels/quant/row_codec.h"
#include "tests/conformance/collectives_fixture.h"

namespace krait::collectives {
namespace {

class CollectivesCodecs : public Collectives {};
RUN_OVER_COLLECTIVES(CollectivesCodecs);

// A row as it arrives: rounded once.
void round_row(const CodecEntry& codec, std::vector<float>& row) {
  if (!codec.format) return;
  const auto count = std::ssize(row);
  std::vector<std::byte> packed(static_cast<size_t>(kernels::encoded_bytes(*codec.format, count)));
  kernels::encode_row_reference(*codec.format, row.data(), count, packed.data());
  kernels::decode_row_reference(*codec.format, packed.data(), count, row.data());
}

// The sum of wire_rows.h of one row: parts[rank][width].
std::vector<float> codec_sum(const CodecEntry& codec, ReduceOrder order, std::vector<std::vector<float>> parts,
                             int64_t exact_lanes) {
  const std::vector<float> plain = plain_sum(order, parts);
  if (parts.size() == 1) return plain;
  const size_t body = parts[0].size() - static_cast<size_t>(exact_lanes);
  for (auto& part : parts) {
    part.resize(body);
    if (codec.rotated) kernels::rotate_row_reference(part.data(), std::ssize(part));
    round_row(codec, part);
  }
  std::vector<float> sum = plain_sum(order, parts);
  if (parts.size() > 2) round_row(codec, sum);
  if (codec.rotated) kernels::rotate_row_back_reference(sum.data(), std::ssize(sum));
  sum.insert(sum.end(), plain.begin() + static_cast<std::ptrdiff_t>(body), plain.end());
  return sum;
}

std::vector<float> codec_sum_of_rows(const CodecEntry& codec, ReduceOrder order,
                                     const std::vector<std::vector<float>>& parts, const Shape& shape,
                                     int64_t exact_lanes) {
  std::vector<float> sum;
  for (int64_t row = 0; row < shape.rows && shape.width > 0; ++row) {
    std::vector<std::vector<float>> rows;
    for (const auto& part : parts)
      rows.emplace_back(part.begin() + row * shape.width, part.begin() + (row + 1) * shape.width);
    const auto one = codec_sum(codec, order, rows, exact_lanes);
    sum.insert(sum.end(), one.begin(), one.end());
  }
  return sum;
}

// 7 x 257 and 2 x 5001 end with short groups; a stage of one block cuts rows; 41 x 640 takes several chunks of rows.
TEST_P(CollectivesCodecs, SumsHaveTheBitsOfTheContractWhateverTheSizeAndAlgorithm) {
  constexpr int64_t kMaxBytes = limits::kMaxCollectiveMessageBytes;
  const std::vector<Shape> shapes = {{0, 16},  {0, 5000}, {4, 0},    {1, 1},   {3, 5},
                                     {1, 128}, {7, 257},  {2, 5001}, {41, 640}};
  std::vector<std::vector<std::vector<float>>> parts;  // [shape][rank]
  for (const Shape& shape : shapes)
    parts.push_back(parts_of(parts.size() + 50, world(), shape.rows * shape.width));
  const ReduceOrder order = orders_of(world()).back();
  for (const CodecEntry& codec : all_codecs()) {
    for (const auto& [lanes, two_shot_bytes, stage_bytes] : {std::tuple{int64_t{1}, int64_t{0}, int64_t{1}},
                                                             {int64_t{0}, int64_t{0}, 256 * kKiB},
                                                             {limits::kMaxExactLanes, kMaxBytes, kKiB}}) {
      std::vector<ReduceSpec> specs;
      std::vector<std::vector<float>> expected;
      for (size_t s = 0; s < shapes.size(); ++s) {
        specs.push_back({codec.codec, std::min(lanes, shapes[s].width)});
        expected.push_back(codec_sum_of_rows(codec, order, parts[s], shapes[s], specs[s].exact_lanes));
      }
      Options group = options(order);
      group.two_shot_bytes = two_shot_bytes;
      group.stage_bytes = stage_bytes;
      expect_all_ok(run_ranks(make(), group, [&](Communicator& communicator) -> Status {
        for (size_t s = 0; s < shapes.size(); ++s) {
          const auto& [rows, width] = shapes[s];
          std::vector<float> data = parts[s][static_cast<size_t>(communicator.rank())];
          std::vector<float> out(data.size(), -1.0f);
          RETURN_IF_ERROR(communicator.all_reduce(rows, width, data.data(), out.data(), specs[s]));
          if (!same_bits(out, expected[s]))
            return failed(fmt::format("{}: {} x {} with {} lanes", codec.name, rows, width, specs[s].exact_lanes));
          RETURN_IF_ERROR(communicator.all_reduce(rows, width, data.data(), data.data(), specs[s]));
          if (!same_bits(data, out)) return failed(fmt::format("{}: {} x {} in place", codec.name, rows, width));
        }
        return {};
      }));
    }
  }
}

TEST_P(CollectivesCodecs, ARowHasTheSameBitsAloneAndAmongOthers) {
  constexpr int64_t kRows = 23, kWidth = 1537;
  expect_all_ok(run_ranks(make(), options(orders_of(world()).back()), [&](Communicator& communicator) -> Status {
    const auto in = part_of(5, communicator.rank(), kRows * kWidth);
    for (const CodecEntry& codec : all_codecs()) {
      const ReduceSpec spec{codec.codec, 1};
      std::vector<float> together(in.size()), alone(kWidth);
      RETURN_IF_ERROR(communicator.all_reduce(kRows, kWidth, in.data(), together.data(), spec));
      for (const int64_t row : {int64_t{0}, int64_t{17}, kRows - 1}) {
        RETURN_IF_ERROR(communicator.all_reduce(1, kWidth, in.data() + row * kWidth, alone.data(), spec));
        if (std::memcmp(alone.data(), together.data() + row * kWidth, kWidth * sizeof(float)) != 0) {
          return failed(fmt::format("{}: row {} differs", codec.name, row));
        }
      }
    }
    return {};
  }));
}

std::vector<float> gaussian_part(int rank, int64_t count) {
  SplitMix64 random(static_cast<uint64_t>(rank) + 99);
  std::vector<float> part;
  while (std::ssize(part) < count) {
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    part.push_back(static_cast<float>(radius * std::cos(2 * std::numbers::pi * random.uniform())));
  }
  return part;
}

TEST_P(CollectivesCodecs, ErrorsAreTheTables) {
  constexpr int64_t kRows = 25, kWidth = 2560;
  std::vector<std::vector<float>> parts;
  std::vector<double> exact(kRows * kWidth);
  for (int rank = 0; rank < world(); ++rank) {
    parts.push_back(gaussian_part(rank, kRows * kWidth));
    for (size_t i = 0; i < exact.size(); ++i)
      exact[i] += static_cast<double>(parts.back()[i]);
  }
  expect_all_ok(run_ranks(make(), options(), [&](Communicator& communicator) -> Status {
    for (const CodecEntry& codec : all_codecs()) {
      std::vector<float> out = parts[static_cast<size_t>(communicator.rank())];
      RETURN_IF_ERROR(communicator.all_reduce(kRows, kWidth, out.data(), out.data(), {codec.codec}));
      double error = 0, size = 0;
      for (size_t i = 0; i < out.size(); ++i) {
        error += std::pow(static_cast<double>(out[i]) - exact[i], 2);
        size += exact[i] * exact[i];
      }
      error = std::sqrt(error / size);
      // Roundings before the sum count once, whatever the world; the one after it as much again.
      const double roundings = world() == 1 ? 0 : world() == 2 ? 1 : std::numbers::sqrt2;
      const double bound = codec.error * roundings + 3e-7;
      if (communicator.rank() == 0) fmt::print("  {}: relative error {:.5f} of {:.5f}\n", codec.name, error, bound);
      if (error > bound || error < bound / 2 - 3e-7) return failed(fmt::format("{}: {}", codec.name, error));
    }
    return {};
  }));
}

TEST_P(CollectivesCodecs, WhatIsNotFiniteInAPartIsNotFiniteInTheSum) {
  constexpr int64_t kWidth = 700;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const bool in_two_shot : {false, true}) {
    Options group = options();
    group.two_shot_bytes = in_two_shot ? 0 : limits::kMaxCollectiveMessageBytes;
    expect_all_ok(run_ranks(make(), group, [&](Communicator& communicator) -> Status {
      for (const CodecEntry& codec : all_codecs()) {
        for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
          for (const size_t at : {size_t{0}, size_t{300}, size_t{699}}) {
            auto data = part_of(3, communicator.rank(), kWidth);
            if (communicator.rank() == world() - 1) data[at] = bad;
            RETURN_IF_ERROR(communicator.all_reduce(1, kWidth, data.data(), data.data(), {codec.codec}));
            if (std::isfinite(data[at])) return failed(fmt::format("{}: {} became {}", codec.name, bad, data[at]));
            for (size_t i = 0; i < data.size(); ++i) {
              if (i / 128 != at / 128 && !std::isfinite(data[i]))
                return failed(fmt::format("{}: {} spread to another block", codec.name, bad));
            }
          }
        }
      }
      return {};
    }));
  }
}

}  // namespace
}  // namespace krait::collectives
