#include "kernels/device/cores.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <fstream>
#include <tuple>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/number_list.h"
#include "common/base/units.h"

namespace krait::kernels {
namespace {

std::vector<int> cpu_list_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return parse_cpu_list(line).value_or(std::vector<int>());
}

bool holds(std::span<const int> sorted, int number) {
  return std::binary_search(sorted.begin(), sorted.end(), number);
}

}  // namespace

std::optional<std::vector<int>> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const size_t dash = part.find('-', 1);  // a number below 0 is refused as such
    const auto first = parse_number<int>(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_number<int>(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= limits::kMaxCpus) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu)
      cpus.push_back(cpu);
    begin = end + 1;
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::vector<int> allowed_cpus() {
  static_assert(limits::kMaxCpus <= CPU_SETSIZE);
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return cpus;
  for (int cpu = 0; cpu < limits::kMaxCpus; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<Core> find_cores(std::span<const int> cpus, const TopologyFiles& files) {
  std::vector<Core> cores;
  for (const int cpu : cpus) {
    const auto siblings = cpu_list_in(fmt::format("{}/cpu{}/topology/thread_siblings_list", files.cpus, cpu));
    const auto before = std::count_if(siblings.begin(), siblings.end(), [&](int sibling) {
      return sibling < cpu && std::find(cpus.begin(), cpus.end(), sibling) != cpus.end();
    });
    cores.push_back({cpu, 0, static_cast<int>(before)});
  }
  for (const int node : cpu_list_in(files.nodes + "/online")) {
    const auto here = cpu_list_in(fmt::format("{}/node{}/cpulist", files.nodes, node));
    for (Core& core : cores) {
      if (holds(here, core.cpu)) core.node = node;
    }
  }
  std::sort(cores.begin(), cores.end(), [](const Core& a, const Core& b) {
    return std::tie(a.node, a.sibling, a.cpu) < std::tie(b.node, b.sibling, b.cpu);
  });
  return cores;
}

std::vector<Core> cores_of_rank(std::span<const Core> cores, int64_t ranks, int64_t index, int64_t threads) {
  CHECK(index >= 0 && index < ranks && threads >= 1);
  CHECK_LE(ranks * threads, static_cast<int64_t>(cores.size()));
  std::vector<std::span<const Core>> nodes;
  for (size_t begin = 0, end = 0; begin < cores.size(); begin = end) {
    while (end < cores.size() && cores[end].node == cores[begin].node)
      ++end;
    nodes.push_back(cores.subspan(begin, end - begin));
  }
  // Ranks are dealt to nodes in order, as evenly as it goes; a node's ranks take its cores one after the other.
  const auto node_count = static_cast<int64_t>(nodes.size());
  std::vector<int64_t> taken(nodes.size(), 0);
  size_t own_node = 0;
  int64_t own_begin = 0;
  bool all_fit = true;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const auto node = static_cast<size_t>(rank * node_count / ranks);
    if (rank == index) {
      own_node = node;
      own_begin = taken[node];
    }
    taken[node] += threads;
    all_fit = all_fit && taken[node] <= static_cast<int64_t>(nodes[node].size());
  }
  const auto from = all_fit ? nodes[own_node].subspan(static_cast<size_t>(own_begin))
                            : cores.subspan(static_cast<size_t>(index * threads));
  const auto own = from.first(static_cast<size_t>(threads));
  return {own.begin(), own.end()};
}

int node_of(std::span<const Core> cores) {
  if (cores.empty()) return -1;
  const bool same = std::all_of(cores.begin(), cores.end(), [&](const Core& c) { return c.node == cores[0].node; });
  return same ? cores[0].node : -1;
}

bool prefer_node(int node) {
  constexpr size_t kBits = CHAR_BIT * sizeof(unsigned long);
  std::array<unsigned long, limits::kMaxCpus / kBits> mask{};  // there are no more nodes than cores
  CHECK(node >= 0 && node < limits::kMaxCpus);
  mask[static_cast<size_t>(node) / kBits] = 1UL << (static_cast<size_t>(node) % kBits);
  // The kernel takes one bit fewer than it is told.
  return syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask.data(), limits::kMaxCpus + 1) == 0;
}

}  // namespace krait::kernels
