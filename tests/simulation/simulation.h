// One seed: a cluster is drawn, clients ask it for things, faults befall it; then the faults stop, and it must recover.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/client.h"
#include "tests/simulation/event_queue.h"
#include "tests/simulation/network.h"
#include "tests/simulation/process.h"
#include "tests/simulation/record.h"
#include "tests/simulation/workload.h"

namespace krait::simulation {

class Simulation final {
 public:
  Simulation(uint64_t seed, bool keep_trace);
  ~Simulation();

  /// Runs it to its end; what it found is in record().
  void run();

  const Record& record() const { return record_; }
  int64_t simulated_ns() const { return events_.now_ns(); }
  size_t requests() const { return clients_.size(); }

 private:
  // Events refer to the first three, which do not move once the cluster is drawn.
  struct Shard final {
    RankShape shape;
    std::unique_ptr<ShardProcess> process;  // null while it is down
    bool restarting = false;
  };
  struct Group final {
    std::string name;
    uint32_t max_queue = 0;
    double max_step_ms = 0;
    std::vector<Shard> shards;
  };
  struct Coordinator final {
    std::string name;
    std::unique_ptr<CoordinatorProcess> process;  // null while it is down
    bool draining = false;
  };
  struct Request final {
    size_t coordinator = 0;
    requests::RequestId id = 0;
    bool patient = false;  // nothing but a fault, or overload, may keep it from its answer
    std::shared_ptr<Client> client;
  };

  void draw_cluster();
  void start_shard(Group& group, Shard& shard);
  void start_coordinator(size_t index);
  void kill_shard(Group& group, Shard& shard);
  void kill_coordinator(size_t index);
  void restart_ended_shards();

  void draw_requests();
  void submit(size_t coordinator, requests::GenerationSpec spec);
  void disconnect(size_t request);

  void draw_faults();
  void fault(uint64_t kind);
  void message_faults();
  void pause(Process& process);
  void shard_fault(uint64_t kind);
  void coordinator_fault(uint64_t kind);
  void end_faults();

  /// Goes on until `done`, at most for that long; then says what was waited for.
  template <class Done>
  bool wait_for(std::string_view what, int64_t most_ns, const Done& done);
  void slice(int64_t ns);
  bool serving() const;
  bool all_over() const;
  bool quiet() const;
  void check_clients();
  void check_fault_free();
  void check_quiet();

  template <class Work>
  void for_all_shards(const Work& work);

  EventQueue events_;
  Record record_;
  SplitMix64 random_;
  Network network_;
  Meetings meetings_;
  Workload workload_;
  std::vector<Group> groups_;
  std::vector<Coordinator> coordinators_;
  std::vector<Request> clients_;
  std::vector<Process*> paused_;
  requests::RequestId last_id_ = 0;
  bool faulty_ = false;
  int64_t began_ns_ = 0;   // of the load
  int64_t healed_ns_ = 0;  // when the last fault had ended
};

}  // namespace krait::simulation
