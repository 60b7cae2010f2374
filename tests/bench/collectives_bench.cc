// Latency of an all-reduce between processes of this host, against a memcpy of the same traffic.
//   collectives_bench [RANKS] [ITERATIONS] [spin|sleep] [STAGE_BYTES]
// Each rank writes its part once and takes in every other rank's: the memcpy column copies a part once into a buffer
// and as many buffers as there are ranks besides this one once out of it, on one core with nobody else in the way. Best
// decile and median of rank 0. Meaningful only where each rank has a core of its own.
//
// Then each codec on one core: packing a part, and adding two packed parts, in GB/s of floats that go in or come out,
// beside a memcpy of floats of as many. Parts are 256 KiB, as a stage takes them.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "common/base/rng.h"
#include "common/base/units.h"
#include "shard_server/collectives/shared_memory.h"
#include "shard_server/collectives/wire_rows.h"

namespace krait::collectives {
namespace {

struct Quantiles {
  double best_decile_us;
  double median_us;
};

Quantiles quantiles(std::vector<int64_t>& times_ns) {
  std::sort(times_ns.begin(), times_ns.end());
  return {static_cast<double>(times_ns[times_ns.size() / 10]) / 1e3,
          static_cast<double>(times_ns[times_ns.size() / 2]) / 1e3};
}

// The same bytes without peers: `peers` + 1 copies a round.
Quantiles time_memcpy(int64_t bytes, int peers, int iterations) {
  const SteadyClock clock;
  const auto size = static_cast<size_t>(bytes);
  std::vector<std::vector<char>> stages(static_cast<size_t>(peers) + 1, std::vector<char>(size, 1));
  std::vector<char> in(size, 1), out(size);
  std::vector<int64_t> times_ns;
  for (int i = 0; i < iterations; ++i) {
    const int64_t start_ns = clock.now_ns();
    std::memcpy(stages[0].data(), in.data(), size);
    for (int peer = 1; peer <= peers; ++peer) {
      std::memcpy(out.data(), stages[static_cast<size_t>(peer)].data(), size);
      asm volatile("" ::"r"(out.data()) : "memory");
    }
    times_ns.push_back(clock.now_ns() - start_ns);
  }
  return quantiles(times_ns);
}

void print_codec(const CodecEntry& codec) {
  constexpr int64_t kFloats = 64 * kKiB;
  constexpr int kRounds = 500;
  const SteadyClock clock;
  const WireRows shape = WireRows::make(codec, 16, kFloats / 16, 0);
  const WireChunk chunk{&shape, 0, shape.rows, 0, shape.row_blocks()};
  const ChunkSum sum(chunk, ReduceOrder::kTree, kernels::best_cpu_path());
  std::vector<float> in(kFloats), out(kFloats);
  SplitMix64 random(1);
  for (float& value : in)
    value = static_cast<float>(random.uniform() - 0.5);
  // As a stage lies: aligned to a line.
  std::vector<std::array<float, 16>> packed(kFloats / 16);
  auto* bytes = reinterpret_cast<std::byte*>(packed.data());
  const std::array<const std::byte*, 2> parts = {bytes, bytes};
  const auto gb_per_s = [&](const auto& work) {
    std::vector<int64_t> times_ns;
    for (int i = 0; i < kRounds; ++i) {
      const int64_t start_ns = clock.now_ns();
      work();
      asm volatile("" ::"r"(out.data()), "r"(bytes) : "memory");
      times_ns.push_back(clock.now_ns() - start_ns);
    }
    return static_cast<double>(kFloats * 4) / (quantiles(times_ns).best_decile_us * 1e3);
  };
  const double pack = gb_per_s([&] { sum.pack(in.data(), bytes); });
  const double add = gb_per_s([&] { sum.add(parts, out.data()); });
  const double copy = gb_per_s([&] { std::memcpy(out.data(), in.data(), kFloats * 4); });
  std::printf("%14s %10.3f %12.2f %12.2f %12.2f\n", std::string(codec.name).c_str(),
              static_cast<double>(shape.rows * shape.row_bytes()) / static_cast<double>(kFloats * 4), pack, add, copy);
}

void print_codecs() {
  std::printf("%14s %10s %12s %12s %12s\n", "codec", "bytes", "pack GB/s", "add GB/s", "memcpy GB/s");
  for (const CodecEntry& codec : all_codecs())
    print_codec(codec);
}

int run_rank(Options options, int rank, int iterations) {
  const SteadyClock clock;
  options.rank = rank;
  auto made = make_shared_memory_communicator(options);
  if (!made.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", rank, to_string(made.error()).c_str());
    return 1;
  }
  Communicator& communicator = **made;
  if (rank == 0) {
    std::printf("%10s %10s %12s %12s %12s %8s\n", "bytes", "rounds", "decile us", "median us", "memcpy us", "ratio");
  }
  for (const int64_t bytes : {kKiB, 4 * kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB, 4 * kMiB}) {
    const int rounds = static_cast<int>(std::max<int64_t>(50, iterations * kKiB / std::max(bytes, 16 * kKiB) * 16));
    const int64_t width = bytes / static_cast<int64_t>(sizeof(float));
    std::vector<float> in(static_cast<size_t>(width), 1.0f), out(static_cast<size_t>(width));
    std::vector<int64_t> times_ns;
    for (int i = 0; i < rounds; ++i) {
      const int64_t start_ns = clock.now_ns();
      const Status status = communicator.all_reduce(1, width, in.data(), out.data());
      times_ns.push_back(clock.now_ns() - start_ns);
      if (!status.ok() || out[0] != static_cast<float>(options.world)) {
        std::fprintf(stderr, "rank %d: %s\n", rank, status.ok() ? "a wrong sum" : to_string(status.error()).c_str());
        return 1;
      }
    }
    if (rank == 0) {
      const Quantiles sum = quantiles(times_ns);
      const Quantiles copies = time_memcpy(bytes, options.world - 1, std::min(rounds, 2000));
      std::printf("%10lld %10d %12.2f %12.2f %12.2f %8.2f\n", static_cast<long long>(bytes), rounds, sum.best_decile_us,
                  sum.median_us, copies.best_decile_us, sum.best_decile_us / copies.best_decile_us);
    }
    if (!communicator.barrier().ok()) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace krait::collectives

int main(int argc, char** argv) {
  using krait::collectives::Options;
  Options options;
  options.name = "bench";
  options.epoch = krait::random_u64();
  options.world = argc > 1 ? std::atoi(argv[1]) : 2;
  options.max_rows = 1024;
  options.max_width = 1024;
  const int iterations = argc > 2 ? std::atoi(argv[2]) : 20'000;
  options.may_spin = argc <= 3 || std::string_view(argv[3]) == "spin";
  if (argc > 4) options.stage_bytes = std::atoll(argv[4]);
  if (options.world < 1 || options.world > krait::limits::kMaxWorld || iterations < 1) {
    std::fprintf(stderr, "usage: collectives_bench [RANKS 1..8] [ITERATIONS] [spin|sleep] [STAGE_BYTES]\n");
    return 2;
  }
  std::vector<pid_t> children;
  for (int rank = 1; rank < options.world; ++rank) {
    const pid_t child = fork();
    if (child == 0) _exit(krait::collectives::run_rank(options, rank, iterations));
    children.push_back(child);
  }
  int result = krait::collectives::run_rank(options, 0, iterations);
  for (const pid_t child : children) {
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) result = 1;
  }
  krait::collectives::print_codecs();
  return result;
}
