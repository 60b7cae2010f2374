// Latency of an all-reduce between processes, against what its transport can do at best.
//   collectives_bench [RANKS] [ITERATIONS] [spin|sleep] [STAGE_BYTES] [shared_memory|tcp] [ADDRESS NAMESPACE...]
// Shared memory: each rank writes its part once and takes in every other rank's, so a memcpy of the same traffic is
// timed beside it: a part once into a buffer and as many buffers as there are ranks besides this one once out of it, on
// one core with nobody else in the way. TCP: a round trip of the part between ranks 0 and 1 over a connection of their
// own, with plain blocking calls. Best decile and median of rank 0. Meaningful only where each rank has a core of its
// own. With an address for rank 0, each rank enters the network namespace (ip netns) of its name first: a link can be
// put between them.
//
// Then a sum with the residual addition and the norm that follow it: three passes over all rows, and the rows taken as
// they come (residual_norm.h).
//
// Then each codec on one core: packing a part, and adding two packed parts, in GB/s of floats that go in or come out,
// beside a memcpy of floats of as many. Parts are 256 KiB, as a stage takes them.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "common/base/rng.h"
#include "common/base/units.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/pointwise/rows.h"
#include "shard_server/collectives/registry.h"
#include "shard_server/collectives/residual_norm.h"
#include "shard_server/collectives/tcp_socket.h"
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

/// A connection between ranks 0 and 1, with blocking calls; nothing for the others.
Fd connection(Communicator& communicator, const Options& options) {
  const SteadyClock clock;
  const Patience patience{clock, clock.now_ns() + 10 * kSecond};
  std::array<char, 64> address{};
  std::shared_ptr<TcpListener> listener;
  if (options.rank == 0) {
    listener = TcpListener::open(options.address.substr(0, options.address.rfind(':')) + ":0").value();
    std::copy(listener->address().begin(), listener->address().end(), address.begin());
  }
  if (!communicator.broadcast(0, address.size(), address.data()).ok() || options.rank > 1) return {};
  Fd fd = options.rank == 1 ? connect_to(address.data(), patience).value() : Fd();
  while (options.rank == 0 && !fd.is_open()) {
    wait_a_moment(listener->fd(), POLLIN);
    fd = Fd(accept(listener->fd(), nullptr, nullptr));
  }
  tune_socket(fd.get());
  fcntl(fd.get(), F_SETFL, 0);
  return fd;
}

/// Rank 0's times of round trips of so many bytes.
Quantiles time_round_trips(int fd, int rank, int64_t bytes, int rounds) {
  const SteadyClock clock;
  std::vector<char> data(static_cast<size_t>(bytes));
  std::vector<int64_t> times_ns;
  const auto write_all = [&] { return send(fd, data.data(), data.size(), MSG_NOSIGNAL) == bytes; };
  const auto read_all = [&] { return recv(fd, data.data(), data.size(), MSG_WAITALL) == bytes; };
  for (int i = 0; i < rounds; ++i) {
    const int64_t start_ns = clock.now_ns();
    const bool went = rank == 0 ? write_all() && read_all() : read_all() && write_all();
    times_ns.push_back(clock.now_ns() - start_ns);
    if (!went) std::fprintf(stderr, "rank %d: the round trip broke off\n", rank);
  }
  return quantiles(times_ns);
}

int run_size(Communicator& communicator, int fd, int64_t bytes, int rounds) {
  const SteadyClock clock;
  const int64_t width = bytes / static_cast<int64_t>(sizeof(float));
  std::vector<float> in(static_cast<size_t>(width), 1.0f), out(static_cast<size_t>(width));
  std::vector<int64_t> times_ns;
  for (int i = 0; i < rounds; ++i) {
    const int64_t start_ns = clock.now_ns();
    const Status status = communicator.all_reduce(1, width, in.data(), out.data());
    times_ns.push_back(clock.now_ns() - start_ns);
    if (!status.ok() || out[0] != static_cast<float>(communicator.world())) {
      std::fprintf(stderr, "rank %d: %s\n", communicator.rank(),
                   status.ok() ? "a wrong sum" : to_string(status.error()).c_str());
      return 1;
    }
  }
  const bool is_tcp = communicator.transport() == "tcp";
  Quantiles at_best{};
  if (is_tcp && fd >= 0) at_best = time_round_trips(fd, communicator.rank(), bytes, rounds);
  if (!is_tcp && communicator.rank() == 0)
    at_best = time_memcpy(bytes, communicator.world() - 1, std::min(rounds, 2000));
  if (communicator.rank() == 0) {
    const Quantiles sum = quantiles(times_ns);
    std::printf("%10lld %10d %12.2f %12.2f %12.2f %8.2f\n", static_cast<long long>(bytes), rounds, sum.best_decile_us,
                sum.median_us, at_best.best_decile_us, sum.best_decile_us / at_best.best_decile_us);
  }
  return communicator.barrier().ok() ? 0 : 1;
}

/// The sum of rows with what follows it, in three passes over all rows and with each stretch of rows as it comes.
int run_residual(Communicator& communicator, int64_t rows, int64_t width, int rounds) {
  const SteadyClock clock;
  kernels::Stream stream({.threads = 1, .path = kernels::best_cpu_path(), .may_spin = true});
  const auto size = static_cast<size_t>(rows * width);
  std::vector<float> delta(size, 1e-3f), sum(size), h(size, 1.0f), u(size), weight(static_cast<size_t>(width), 1.0f);
  ResidualNorm norm(
      stream,
      {.width = width, .sum = sum.data(), .sum_stride = width, .h = h.data(), .weight = weight.data(), .u = u.data()});
  std::array<std::vector<int64_t>, 2> times_ns;
  for (int i = 0; i < 2 * rounds; ++i) {
    const bool is_fused = i % 2 == 1;
    if (!communicator.barrier().ok()) return 1;
    const int64_t start_ns = clock.now_ns();
    const Status status = communicator.all_reduce(rows, width, delta.data(), sum.data(),
                                                  {Codec::kFloat32, 0, is_fused ? &norm : nullptr});
    if (!status.ok()) return 1;
    if (!is_fused) {
      kernels::add_rows(stream, h.data(), width, sum.data(), width, rows, width);
      kernels::rms_norm(stream, {rows, width, h.data(), width, weight.data(), 1e-5f, u.data(), width});
    }
    times_ns[i % 2].push_back(clock.now_ns() - start_ns);
  }
  if (communicator.rank() == 0) {
    const Quantiles apart = quantiles(times_ns[0]), fused = quantiles(times_ns[1]);
    std::printf("%10lld %10lld %12.2f %12.2f %12.2f %12.2f %8.2f\n", static_cast<long long>(rows),
                static_cast<long long>(width), apart.best_decile_us, apart.median_us, fused.best_decile_us,
                fused.median_us, fused.best_decile_us / apart.best_decile_us);
  }
  return 0;
}

int run_rank(Options options, CommunicatorFactory make, int rank, int iterations, const char* network) {
  options.rank = rank;
  if (network != nullptr) {
    const Fd space(open((std::string("/run/netns/") + network).c_str(), O_RDONLY));
    if (setns(space.get(), CLONE_NEWNET) != 0) {
      std::perror(network);
      return 1;
    }
  }
  if (rank == 0) options.listener = TcpListener::open(options.address).value();
  auto made = make(options);
  if (!made.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", rank, to_string(made.error()).c_str());
    return 1;
  }
  Communicator& communicator = **made;
  const bool is_tcp = communicator.transport() == "tcp";
  const Fd plain = is_tcp && options.world > 1 ? connection(communicator, options) : Fd();
  if (rank == 0) {
    std::printf("%10s %10s %12s %12s %12s %8s\n", "bytes", "rounds", "decile us", "median us",
                is_tcp ? "trip us" : "memcpy us", "ratio");
  }
  for (const int64_t bytes : {kKiB, 4 * kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB, 4 * kMiB}) {
    const int rounds = static_cast<int>(std::max<int64_t>(50, iterations * kKiB / std::max(bytes, 16 * kKiB) * 16));
    if (run_size(communicator, plain.get(), bytes, rounds) != 0) return 1;
  }
  if (rank == 0) {
    std::printf("%10s %10s %12s %12s %12s %12s %8s\n", "rows", "width", "three us", "median us", "fused us",
                "median us", "ratio");
  }
  for (const int64_t rows : {1, 16, 64, 512, 2048}) {
    if (run_residual(communicator, rows, 768, static_cast<int>(std::max<int64_t>(50, iterations / rows / 4))) != 0)
      return 1;
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
    std::fprintf(stderr,
                 "usage: collectives_bench [RANKS 1..8] [ITERATIONS] [spin|sleep] [STAGE_BYTES] "
                 "[shared_memory|tcp] [ADDRESS NAMESPACE...]\n");
    return 2;
  }
  const auto make = krait::collectives::find_collective(argc > 5 ? argv[5] : "shared_memory").value();
  options.address = argc > 6 ? argv[6] : "127.0.0.1:7411";
  const auto network = [&](int rank) { return argc > 7 + rank ? argv[7 + rank] : nullptr; };
  std::vector<pid_t> children;
  for (int rank = 1; rank < options.world; ++rank) {
    const pid_t child = fork();
    if (child == 0) _exit(krait::collectives::run_rank(options, make, rank, iterations, network(rank)));
    children.push_back(child);
  }
  int result = krait::collectives::run_rank(options, make, 0, iterations, network(0));
  for (const pid_t child : children) {
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) result = 1;
  }
  krait::collectives::print_codecs();
  return result;
}
