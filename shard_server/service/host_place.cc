#include "shard_server/service/host_place.h"

#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "kernels/device/cores.h"

namespace krait::shard {
namespace {

/// Of a rank's part of the memory that is free before loading, less its weights, what states may take.
constexpr double kStateShare = 0.4;

Result<std::vector<kernels::Core>> listed_cores(const std::string& list, int threads) {
  const auto refuse = [&](std::string why) {
    return Error{Errc::kInvalidArgument, fmt::format("--cpus {}: {}", list, std::move(why)), "cpus"};
  };
  const auto cpus = kernels::parse_cpu_list(list);
  if (!cpus) return refuse("neither auto nor none nor a list of cores, as 0-3,8");
  const auto allowed = kernels::allowed_cpus();
  for (const int cpu : *cpus) {
    if (!std::binary_search(allowed.begin(), allowed.end(), cpu))
      return refuse(fmt::format("this process may not use core {}", cpu));
  }
  if (std::cmp_less(cpus->size(), threads))
    return refuse(fmt::format("{} cores are too few for {} threads", cpus->size(), threads));
  return kernels::find_cores(*cpus);
}

Result<std::vector<kernels::Core>> choose_cores(const HostPlace& place, int threads) {
  if (place.cpus != "auto") {
    if (place.cpus == "none") return std::vector<kernels::Core>();
    ASSIGN_OR_RETURN(auto cores, listed_cores(place.cpus, threads));
    // Enough for all: each gets its own. Else the list is meant for this rank alone.
    if (place.index >= 0 && std::cmp_greater_equal(cores.size(), place.ranks * threads))
      return kernels::cores_of_rank(cores, place.ranks, place.index, threads);
    cores.resize(static_cast<size_t>(threads));
    return cores;
  }
  const int64_t kernel_threads = place.ranks * threads;
  const auto cpus = kernels::allowed_cpus();
  // A quota of processor time may be less than the cores.
  const int64_t cores = std::min<int64_t>(allowed_cores(), static_cast<int64_t>(cpus.size()));
  if (place.index < 0 || kernel_threads > cores || 2 * kernel_threads <= cores) return std::vector<kernels::Core>();
  return kernels::cores_of_rank(kernels::find_cores(cpus), place.ranks, place.index, threads);
}

/// Binds memory where there are several nodes, and says what was decided.
void take_cores(RankOptions& options, const std::vector<kernels::Core>& cores) {
  options.cpus.clear();
  for (const auto& core : cores)
    options.cpus.push_back(core.cpu);
  options.node = -1;
  if (cores.empty()) return;
  const auto all = kernels::find_cores(kernels::allowed_cpus());
  std::string_view memory = "there is one NUMA node, so memory needs no place";
  if (kernels::node_of(all) < 0) {
    options.node = kernels::node_of(cores);
    memory =
        options.node < 0 ? "they are on several NUMA nodes, so memory has no place" : "memory comes from their node";
  }
  log_info("rank {}: threads are bound to cores {}; {}", options.rank, fmt::join(options.cpus, ","), memory);
}

}  // namespace

Status share_host(RankOptions& options, const Checkpoint& checkpoint, std::span<const double> shares,
                  const HostPlace& place) {
  CHECK_LT(place.index, place.ranks);
  options.may_spin = place.ranks * options.threads <= allowed_cores();
  ASSIGN_OR_RETURN(const auto cores, choose_cores(place, options.threads));
  take_cores(options, cores);
  ASSIGN_OR_RETURN(const auto partition, make_partition(checkpoint.config(), options.parts(), shares));
  const int64_t weights = kept_bytes(checkpoint.plan(), partition, options.part(), options.dtype);
  // Memory is shared by the ranks of a host, addresses are this process's own.
  const int64_t free_bytes = std::min(available_memory_bytes() / place.ranks, address_space_left_bytes());
  const int64_t left = std::max<int64_t>(0, free_bytes - weights);
  options.state_memory_bytes = static_cast<int64_t>(static_cast<double>(left) * kStateShare);
  return {};
}

}  // namespace krait::shard
