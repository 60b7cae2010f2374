// krait-shard: one rank of a group, on one device.
#include <unistd.h>

#include <atomic>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/base/settings.h"
#include "common/base/version.h"
#include "common/metrics/exposition.h"
#include "common/tensor/dtype.h"
#include "shard_server/service/collective_plan.h"
#include "shard_server/service/shard_daemon.h"

namespace krait {
namespace {

struct Options final {
  shard::ShardOptions shard;
  std::string metrics_host = "127.0.0.1";
  int64_t metrics_port = 0;
  int64_t watch_parent_pid = 0;
};

Result<bool> read_options(int argc, char** argv, Options& options) {
  Settings settings("krait-shard", "One rank of a group: holds its slice of a model and runs it.", version());
  auto& s = options.shard;
  settings.section("Place in the group");
  settings.add("group", s.group, "name of the group");
  settings.add("rank", s.rank, "this process among its group; 0 leads", 0, limits::kMaxWorld - 1);
  settings.add("world", s.world, "ranks of the group", 1, limits::kMaxWorld);
  settings.add_choice("weights", s.weights, "what a rank holds: its part of every layer, or the whole model",
                      {"cut", "whole"});
  settings.add("prefill-split", s.prefill_split,
               "ranks of whole weights that share a long prompt: auto, never, a number");
  settings.add("shares", s.shares, "speeds of the ranks, as 3,1: their parts of the model; none: equal parts (rank 0)");
  settings.add("host-ranks", s.host_ranks, "ranks of all groups on this host; 0: --world", 0, 4096);
  settings.add("host-index", s.host_index, "this one among those; -1: its rank", -1, 4095);
  settings.section("Addresses");
  settings.add("run-dir", s.run_dir, "folder for the group's sockets", true);
  settings.add("metrics-host", options.metrics_host, "address of /metrics");
  settings.add("metrics-port", options.metrics_port, "port of /metrics; 0 picks one", 0, 65'535);
  settings.section("Collectives (rank 0's count for all)");
  settings.add_choice("collectives", s.collectives, "sums as", shard::sum_modes());
  settings.add("collectives-plan", s.collectives_plan,
               "file of krait-tune; none: the one beside the model, where --collectives is auto");
  settings.add("collectives-address", s.collectives_address,
               "host:port where ranks of other hosts reach rank 0 for sums; none: shared memory");
  settings.section("Model");
  settings.add("model", s.model, "a folder, a GGUF file, or org/name in Hugging Face's cache", true);
  settings.add("served-model-name", s.served_model_name, "name clients use; the folder's name if empty");
  settings.add_choice("dtype", s.dtype, "type of the weights in memory", weight_type_names());
  settings.section("Sequences");
  settings.add("slots", s.slots, "sequences that may run at once; 0: as many as memory allows", 0, limits::kMaxSlots);
  settings.add("max-queue", s.max_queue, "sequences that may wait", 0, limits::kMaxQueue);
  settings.add("max-step-ms", s.max_step_ms, "time that prefill may fill a step up to", 0.1, 60'000);
  settings.section("Process");
  settings.add("threads", s.threads, "threads of this rank", 1, limits::kMaxThreads);
  settings.add("cpus", s.cpus, "cores they are bound to, as 0-3,8; or none; or auto: if most are taken");
  settings.add("drain-seconds", s.drain_seconds, "time for open sequences to end after SIGTERM", 0, 86'400);
  settings.add("watch-parent-pid", options.watch_parent_pid, "stop when this parent process is gone", 0, INT32_MAX);
  return settings.parse(argc, argv);
}

Status serve(const Options& options) {
  init_log(fmt::format("shard {}/{}", options.shard.group, options.shard.rank), LogLevel::kInfo);
  give_large_buffers_back();
  std::atomic<int> stop_requests = 0;
  const StopWatch watch(options.watch_parent_pid, [&] { ++stop_requests; });
  ASSIGN_OR_RETURN([[maybe_unused]] const int peers,
                   connections_within(raise_descriptor_limit(), limits::kMaxCoordinators));
  const SteadyClock clock;
  ASSIGN_OR_RETURN(auto daemon, shard::ShardDaemon::start(options.shard, clock));
  ASSIGN_OR_RETURN(const auto metrics,
                   blame_option("metrics-port", metrics::MetricsServer::start(
                                                    options.metrics_host, static_cast<uint16_t>(options.metrics_port),
                                                    [&] { return daemon->metrics().render(); })));
  daemon->set_metrics_port(metrics->port());
  RETURN_IF_ERROR(say_ready(fmt::format(R"({{"pid":{},"metrics_port":{}}})", getpid(), metrics->port())));
  auto status = daemon->run(stop_requests);
  metrics->stop();
  return status;
}

int run(int argc, char** argv) {
  Options options;
  return run_program("krait-shard", read_options(argc, argv, options), [&] { return serve(options); });
}

}  // namespace
}  // namespace krait

int main(int argc, char** argv) {
  return krait::run(argc, argv);
}
