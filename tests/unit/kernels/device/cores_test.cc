#include "kernels/device/cores.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "common/base/limits.h"

namespace krait::kernels {
namespace {

std::vector<int> numbers(std::span<const Core> cores) {
  std::vector<int> cpus;
  for (const Core& core : cores)
    cpus.push_back(core.cpu);
  return cpus;
}

/// What the kernel would tell of a machine.
class Machine final {
 public:
  Machine() : folder_(std::filesystem::path(testing::TempDir()) / ("krait-cores-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder_);
  }
  ~Machine() { std::filesystem::remove_all(folder_); }

  void node(int number, const std::string& cpus) {
    nodes_ += (nodes_.empty() ? "" : ",") + std::to_string(number);
    write("node/online", nodes_);
    write("node/node" + std::to_string(number) + "/cpulist", cpus);
  }
  void siblings(const std::string& cpus) {
    const auto numbers = parse_cpu_list(cpus).value();
    for (const int cpu : numbers)
      write("cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", cpus);
  }
  std::vector<Core> cores(const std::string& allowed) const {
    const auto cpus = parse_cpu_list(allowed).value();
    return find_cores(cpus, {(folder_ / "cpu").string(), (folder_ / "node").string()});
  }

 private:
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text << '\n';
  }
  const std::filesystem::path folder_;
  std::string nodes_;
};

TEST(CoresTest, ListsAreReadAndWhatIsNoneIsRefused) {
  const std::map<std::string, std::vector<int>> lists = {
      {"0", {0}}, {"3,1", {1, 3}}, {"0-3,8", {0, 1, 2, 3, 8}}, {"2-2,1-3", {1, 2, 3}}, {"1023", {1023}}};
  for (const auto& [text, cpus] : lists)
    EXPECT_EQ(parse_cpu_list(text), cpus) << text;
  for (const char* text : {"", "-1", "1-", "1-0", "a", "0,", ",0", "0 1", "1024", "0-1024", "0-1-2", "99999999999"})
    EXPECT_FALSE(parse_cpu_list(text).has_value()) << text;
}

TEST(CoresTest, WhatTheSystemDoesNotTellIsOneNodeOfSingleThreads) {
  const Machine nothing;
  const auto cores = nothing.cores("0-3");
  EXPECT_EQ(numbers(cores), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(node_of(cores), 0);
}

TEST(CoresTest, PhysicalCoresComeBeforeTheirSecondThreads) {
  Machine machine;
  machine.node(0, "0-7");
  for (const char* pair : {"0-1", "2-3", "4-5", "6-7"})
    machine.siblings(pair);
  EXPECT_EQ(numbers(machine.cores("0-7")), (std::vector<int>{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_EQ(numbers(machine.cores("1-3")), (std::vector<int>{1, 2, 3})) << "the first thread of 0-1 is not ours";
  EXPECT_EQ(numbers(cores_of_rank(machine.cores("0-7"), 2, 1, 2)), (std::vector<int>{4, 6}));
}

TEST(CoresTest, EachRankLiesOnOneNodeWhereThatGoes) {
  Machine machine;
  machine.node(0, "0-3,8-11");
  machine.node(1, "4-7,12-15");
  const auto cores = machine.cores("0-15");
  EXPECT_EQ(numbers(cores_of_rank(cores, 2, 0, 6)), (std::vector<int>{0, 1, 2, 3, 8, 9}));
  EXPECT_EQ(numbers(cores_of_rank(cores, 2, 1, 6)), (std::vector<int>{4, 5, 6, 7, 12, 13}));
  EXPECT_EQ(node_of(cores_of_rank(cores, 2, 1, 6)), 1);
  EXPECT_EQ(numbers(cores_of_rank(cores, 4, 1, 4)), (std::vector<int>{8, 9, 10, 11}));
  EXPECT_EQ(numbers(cores_of_rank(cores, 4, 2, 4)), (std::vector<int>{4, 5, 6, 7}));
  // Three ranks of five do not fit the nodes.
  EXPECT_EQ(node_of(cores_of_rank(cores, 3, 1, 5)), -1);
  EXPECT_EQ(node_of(cores_of_rank(cores, 1, 0, 16)), -1);
}

TEST(CoresTest, NoTwoRanksShareACore) {
  Machine machine;
  machine.node(0, "0-6");
  machine.node(2, "7-9");
  machine.node(3, "10-13");
  const auto cores = machine.cores("0-13");
  for (int64_t ranks = 1; ranks <= 14; ++ranks) {
    for (int64_t threads = 1; ranks * threads <= 14; ++threads) {
      std::set<int> taken;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        for (const int cpu : numbers(cores_of_rank(cores, ranks, rank, threads)))
          EXPECT_TRUE(taken.insert(cpu).second) << ranks << " ranks, " << threads << " threads, core " << cpu;
      }
    }
  }
}

TEST(CoresTest, ThisMachinesCoresAreFound) {
  const auto cpus = allowed_cpus();
  ASSERT_FALSE(cpus.empty());
  const auto cores = find_cores(cpus);
  auto found = numbers(cores);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, cpus);
  EXPECT_FALSE(prefer_node(limits::kMaxCpus - 1)) << "no machine has that many";
}

}  // namespace
}  // namespace krait::kernels
