#include "deploy/tools/link_measure.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include "common/base/limits.h"
#include "common/base/rng.h"
#include "common/base/units.h"
#include "shard_server/collectives/loopback.h"
#include "shard_server/collectives/registry.h"
#include "shard_server/collectives/tcp_socket.h"
#include "shard_server/collectives/wire_rows.h"

namespace krait::tools {
namespace {

using collectives::Codec;
using collectives::CodecEntry;
using collectives::Communicator;

constexpr std::array<int64_t, 8> kSizes = {1 * kKiB,   4 * kKiB, 16 * kKiB, 64 * kKiB,
                                           256 * kKiB, 1 * kMiB, 4 * kMiB,  16 * kMiB};
constexpr std::array<int64_t, 3> kStages = {64 * kKiB, 256 * kKiB, 1 * kMiB};
constexpr int64_t kWidth = 1024;  // floats of a row, or all of a smaller sum
constexpr int64_t kMeasureNs = 10 * kMs;
constexpr int64_t kLeastRounds = 5;
constexpr int64_t kMostRounds = 400;
constexpr double kHardly = 0.95;                         // a change that leaves more than this of the time is not made
constexpr double kSmallError = 0.01;                     // of codecs that may be chosen without a look at a text
constexpr uint64_t kMeetingEpoch = 0x6B726169'74756E65;  // between hosts: all ranks must know it; groups are short

struct Way final {
  bool two_shot = false;
  int64_t stage_bytes = 0;
};

std::vector<Way> ways_of(int world) {
  std::vector<Way> ways;
  for (const bool two_shot : {false, true}) {
    for (const int64_t stage : kStages) {
      if (!two_shot || world > 2) ways.push_back({two_shot, stage});
    }
  }
  return ways;
}

/// Times of one operation on rank 0, which says how often; a low quantile, because others use the machine too.
Result<double> time_sum(Communicator& group, int64_t rows, int64_t width, Codec codec, std::vector<float>& data,
                        const Clock& clock) {
  std::vector<int64_t> times_ns;
  const auto once = [&]() -> Status {
    const int64_t start_ns = clock.now_ns();
    RETURN_IF_ERROR(group.all_reduce(rows, width, data.data(), data.data(), {codec, 0}));
    times_ns.push_back(clock.now_ns() - start_ns);
    return {};
  };
  for (int warm = 0; warm < 3; ++warm)
    RETURN_IF_ERROR(once());
  int64_t rounds = std::clamp(kMeasureNs / std::max<int64_t>(1, times_ns.back()), kLeastRounds, kMostRounds);
  RETURN_IF_ERROR(group.broadcast(0, sizeof rounds, &rounds));
  times_ns.clear();
  for (int64_t round = 0; round < rounds; ++round) {
    // Sums of sums would not stay finite.
    std::fill(data.begin(), data.begin() + rows * width, 1.0f);
    RETURN_IF_ERROR(once());
  }
  std::sort(times_ns.begin(), times_ns.end());
  return static_cast<double>(times_ns[times_ns.size() / 4]) / kSecond;
}

Status measure_way(Communicator& group, const Way& way, const Clock& clock, std::vector<LinkFigure>& figures) {
  std::vector<float> data(static_cast<size_t>(kSizes.back()) / sizeof(float), 1.0f);
  for (const CodecEntry& codec : collectives::all_codecs()) {
    for (const int64_t size : kSizes) {
      const int64_t floats = size / static_cast<int64_t>(sizeof(float));
      const int64_t width = std::min(kWidth, floats);
      const auto shape = collectives::WireRows::make(codec, floats / width, width, 0);
      LinkFigure figure{codec.codec, size, shape.rows * shape.row_bytes(), way.two_shot, way.stage_bytes, 0};
      // What fits a smaller stage goes the same way in it.
      const bool again = std::any_of(kStages.begin(), kStages.end(), [&](int64_t stage) {
        return stage < way.stage_bytes && figure.part_bytes <= stage;
      });
      if (again) continue;
      ASSIGN_OR_RETURN(figure.seconds, time_sum(group, floats / width, width, codec.codec, data, clock));
      figures.push_back(figure);
    }
  }
  return {};
}

/// One rank's part in all of it.
Status run_rank(const LinkOptions& links, collectives::Options options, const Clock& clock,
                std::vector<LinkFigure>& figures) {
  ASSIGN_OR_RETURN(const auto make, collectives::find_collective(links.transport));
  for (const Way& way : ways_of(links.world)) {
    options.stage_bytes = way.stage_bytes;
    options.two_shot_bytes = way.two_shot ? 0 : limits::kMaxCollectiveMessageBytes;
    ASSIGN_OR_RETURN(const auto group, make(options));
    RETURN_IF_ERROR(measure_way(*group, way, clock, figures));
    ++options.epoch;
  }
  return {};
}

/// Where the range of one size ends and that of the next begins; the last one has no end of its own.
int64_t end_of(int64_t bytes, int64_t next_bytes) {
  return static_cast<int64_t>(std::sqrt(static_cast<double>(bytes) * static_cast<double>(next_bytes)));
}

/// Adds a row, or makes the last one longer where it says the same.
template <class Row, class Same>
void append(std::vector<Row>& rows, Row row, const Same& same) {
  if (!rows.empty() && same(rows.back(), row)) {
    rows.back().bytes = row.bytes;
    return;
  }
  rows.push_back(std::move(row));
}

}  // namespace

std::span<const int64_t> link_sizes() {
  return kSizes;
}

Result<std::vector<LinkFigure>> measure_links(const LinkOptions& links, const Clock& clock) {
  collectives::Options options;
  options.name = "krait-tune";
  options.world = links.world;
  options.order =
      (links.world & (links.world - 1)) == 0 ? collectives::ReduceOrder::kTree : collectives::ReduceOrder::kRankOrder;
  options.max_rows = limits::kMaxStepRows;
  options.max_width = kWidth;
  options.may_spin = links.may_spin;
  options.clock = &clock;
  options.address = links.address;
  std::vector<LinkFigure> figures;
  if (links.rank >= 0) {
    options.epoch = kMeetingEpoch;
    options.rank = links.rank;
    options.listener = links.listener;
    RETURN_IF_ERROR(run_rank(links, options, clock, figures));
    if (links.rank != 0) figures.clear();
    return figures;
  }
  options.name += fmt::format("-{}", getpid());
  options.epoch = random_u64();
  options.hub = collectives::make_loopback_hub();
  if (links.transport == "tcp") {
    ASSIGN_OR_RETURN(options.listener, collectives::TcpListener::open("127.0.0.1:0"));
    options.address = options.listener->address();
  }
  std::vector<Status> ended(static_cast<size_t>(links.world));
  std::vector<std::vector<LinkFigure>> all(static_cast<size_t>(links.world));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < links.world; ++rank) {
    threads.emplace_back([&, rank] {
      collectives::Options mine = options;
      mine.rank = rank;
      ended[static_cast<size_t>(rank)] = run_rank(links, mine, clock, all[static_cast<size_t>(rank)]);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const Status& status : ended)
    RETURN_IF_ERROR(status);
  return std::move(all[0]);
}

const LinkFigure* fastest(std::span<const LinkFigure> figures, Codec codec, int64_t float_bytes) {
  const LinkFigure* best = nullptr;
  for (const LinkFigure& figure : figures) {
    if (figure.codec != codec || figure.float_bytes != float_bytes) continue;
    if (best == nullptr || figure.seconds < best->seconds) best = &figure;
  }
  return best;
}

std::vector<wire::SumAlgorithm> algorithms_from(std::span<const LinkFigure> figures) {
  std::vector<wire::SumAlgorithm> rows;
  for (const CodecEntry& codec : collectives::all_codecs()) {
    const LinkFigure* last = nullptr;  // what the size before does
    for (size_t i = 0; i < kSizes.size(); ++i) {
      const LinkFigure* best = fastest(figures, codec.codec, kSizes[i]);
      if (best == nullptr) continue;
      const LinkFigure* chosen = best;
      for (const LinkFigure& figure : figures) {
        const bool as_before = last != nullptr && figure.codec == codec.codec && figure.float_bytes == kSizes[i] &&
                               figure.two_shot == last->two_shot && figure.stage_bytes == last->stage_bytes;
        if (as_before && best->seconds > kHardly * figure.seconds) chosen = &figure;
      }
      last = chosen;
      const LinkFigure* next = i + 1 < kSizes.size() ? fastest(figures, codec.codec, kSizes[i + 1]) : nullptr;
      const int64_t end = next != nullptr ? end_of(best->part_bytes, next->part_bytes) : best->part_bytes;
      append(rows, wire::SumAlgorithm{std::string(codec.name), end, chosen->two_shot, chosen->stage_bytes},
             [](const auto& a, const auto& b) {
               return a.codec == b.codec && a.two_shot == b.two_shot && a.stage_bytes == b.stage_bytes;
             });
    }
  }
  return rows;
}

std::vector<wire::SizeCodec> codecs_by_size_from(std::span<const LinkFigure> figures) {
  std::vector<wire::SizeCodec> rows;
  for (size_t i = 0; i < kSizes.size(); ++i) {
    const LinkFigure* exact = fastest(figures, Codec::kFloat32, kSizes[i]);
    const LinkFigure* best = exact;
    for (const CodecEntry& codec : collectives::all_codecs()) {
      const LinkFigure* figure = fastest(figures, codec.codec, kSizes[i]);
      if (figure == nullptr || codec.error > kSmallError) continue;
      if (best == nullptr || figure->seconds < best->seconds) best = figure;
    }
    if (best == nullptr) continue;
    if (exact != nullptr && best->seconds > kHardly * exact->seconds) best = exact;
    const int64_t end = i + 1 < kSizes.size() ? end_of(kSizes[i], kSizes[i + 1]) : kSizes[i];
    append(rows, wire::SizeCodec{end, std::string(collectives::codec_entry(best->codec).name)},
           [](const auto& a, const auto& b) { return a.codec == b.codec; });
  }
  return rows;
}

}  // namespace krait::tools
