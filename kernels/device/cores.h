// Which cores the threads of a rank run on, and which node's memory is near them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace krait::kernels {

struct Core final {
  int cpu = 0;      // its number
  int node = 0;     // whose memory is near
  int sibling = 0;  // of one physical core's hardware threads that were asked for, how many have lower numbers
};

/// Where the kernel tells of cores. For tests: other places.
struct TopologyFiles final {
  std::string cpus = "/sys/devices/system/cpu";
  std::string nodes = "/sys/devices/system/node";
};

/// "0-3,8" as numbers, ascending, each once; none where the text is no such list or names a core from
/// limits::kMaxCpus on.
std::optional<std::vector<int>> parse_cpu_list(std::string_view text);

/// The cores that this thread may use, ascending; empty where the system does not tell.
std::vector<int> allowed_cpus();

/// Those cores in the order in which threads should take them: node by node, and on a node a hardware thread of each
/// physical core before the second of any. What the system does not tell is taken for one node of single threads.
std::vector<Core> find_cores(std::span<const int> cpus, const TopologyFiles& files = {});

/// The cores for the threads of the `index`-th of `ranks` ranks, no two of which share one; `cores` as find_cores gives
/// them, at least ranks x threads. Each rank lies within a node where all fit so.
std::vector<Core> cores_of_rank(std::span<const Core> cores, int64_t ranks, int64_t index, int64_t threads);

/// The node that all of them are on; -1 where there are several, or none.
int node_of(std::span<const Core> cores);

/// From now on what this thread, and threads that it starts, touch first lies on that node while there is room; beyond
/// that elsewhere, which is slow and not fatal. False where the system refuses.
bool prefer_node(int node);

}  // namespace krait::kernels
