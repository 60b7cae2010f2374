#include "shard_server/service/shard_daemon.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/number_list.h"
#include "common/base/process.h"
#include "common/base/rng.h"
#include "common/base/settings.h"
#include "common/base/version.h"
#include "common/transport/zmq_transport.h"
#include "common/weights/model_place.h"
#include "common/wire/addresses.h"
#include "kernels/device/cpu_path.h"
#include "shard_server/collectives/tcp_socket.h"
#include "shard_server/service/engine_rank.h"
#include "shard_server/service/host_place.h"

namespace krait::shard {
namespace {

constexpr int kStopAtOnce = 2;  // stop requests (shard_loop.h)

/// Whether a rank that fails so would fail again: for want of something on its machine or in its files, not of a peer.
bool is_own_fault(Errc code) {
  return code == Errc::kResourceExhausted || code == Errc::kCorrupt || code == Errc::kUnsupported ||
         code == Errc::kInvalidArgument || code == Errc::kIo || code == Errc::kNotFound;
}

/// None: equal parts. What the numbers mean for a model, make_partition checks.
Result<std::vector<double>> parse_shares(const std::string& text) {
  if (text.empty()) return std::vector<double>();
  auto shares = parse_number_list<double>(text);
  if (shares) return std::move(*shares);
  return Error{Errc::kInvalidArgument, fmt::format("--shares '{}' is no list of numbers, as 3,1", text), "shares"};
}

/// Ranks that share a long prompt; 0: all of them.
Result<uint32_t> parse_prefill_split(const std::string& text) {
  if (text == "auto") return 0u;
  if (text == "never") return 1u;
  const auto ranks = parse_number<uint32_t>(text);
  if (ranks && *ranks >= 2 && *ranks <= uint32_t{limits::kMaxWorld}) return *ranks;
  return Error{Errc::kInvalidArgument,
               fmt::format("--prefill-split '{}' is neither auto, never, nor a number of ranks from 2 to {}", text,
                           limits::kMaxWorld),
               "prefill-split"};
}

}  // namespace

Result<std::unique_ptr<ShardDaemon>> ShardDaemon::start(ShardOptions options, const Clock& clock) {
  std::unique_ptr<ShardDaemon> daemon(new ShardDaemon(std::move(options), clock));
  RETURN_IF_ERROR(daemon->open());
  return daemon;
}

ShardDaemon::~ShardDaemon() = default;

Status ShardDaemon::check_options() {
  if (options_.rank >= options_.world) {
    return Error{Errc::kInvalidArgument,
                 fmt::format("rank {} does not exist among {} ranks", options_.rank, options_.world), "rank"};
  }
  host_place_ = {.ranks = options_.host_ranks > 0 ? options_.host_ranks : options_.world,
                 .index = options_.host_index,
                 .cpus = options_.cpus};
  // Where other groups are on this host too, nobody else knows which of its ranks this one is.
  if (host_place_.index < 0 && host_place_.ranks <= options_.world)
    host_place_.index = options_.rank % host_place_.ranks;
  if (host_place_.index >= host_place_.ranks) {
    return Error{Errc::kInvalidArgument,
                 fmt::format("{} does not exist among {} ranks", host_place_.index, host_place_.ranks), "host-index"};
  }
  RETURN_IF_ERROR(wire::check_group_name(options_.group));
  RETURN_IF_ERROR(wire::check_run_dir(options_.run_dir));
  ASSIGN_OR_RETURN(shares_, parse_shares(options_.shares));
  if (whole_weights() && !shares_.empty()) {
    return Error{Errc::kInvalidArgument, "--shares cuts a model, and --weights whole leaves it whole", "shares"};
  }
  ASSIGN_OR_RETURN(prompt_ranks_, parse_prefill_split(options_.prefill_split));
  if (prompt_ranks_ != 0 && !whole_weights()) {
    return Error{Errc::kInvalidArgument, "--prefill-split is for ranks with --weights whole", "prefill-split"};
  }
  return {};
}

Status ShardDaemon::open_model() {
  ASSIGN_OR_RETURN(const ModelPlace model, find_model(options_.model));
  ASSIGN_OR_RETURN(checkpoint_, Checkpoint::open(model.path));
  if (const auto& fields = checkpoint_->config().unknown_fields; !fields.empty()) {
    log_warning("config.json: nobody here knows the fields: {}", fmt::join(fields, ", "));
  }
  model_name_ = options_.served_model_name;
  if (model_name_.empty()) model_name_ = model.name;
  return {};
}

Status ShardDaemon::open() {
  RETURN_IF_ERROR(check_options());
  RETURN_IF_ERROR(open_model());
  join_.incarnation = random_u64();
  join_.rank = static_cast<uint32_t>(options_.rank);
  join_.world = static_cast<uint32_t>(options_.world);
  join_.version = version();
  join_.fingerprint = checkpoint_->fingerprint();
  join_.dtype = options_.dtype;
  join_.path = kernels::cpu_path_name(kernels::best_cpu_path());
  join_.pid = getpid();
  join_.whole_weights = whole_weights();
  registry_ = std::make_unique<metrics::Registry>(metrics::Process::kShard);
  shard_metrics_ = std::make_unique<ShardMetrics>(*registry_);

  ASSIGN_OR_RETURN(transport_, transport::make_zmq_transport());
  ASSIGN_OR_RETURN(endpoints_, open_endpoints(*transport_, options_.run_dir, options_.group, join_));
  if (options_.rank == 0) {
    ASSIGN_OR_RETURN(sums_, choose_sums({.mode = options_.collectives,
                                         .plan_path = options_.collectives_plan,
                                         .world = whole_weights() ? 1 : join_.world,
                                         .dtype = options_.dtype},
                                        *checkpoint_));
  }
  if (options_.rank == 0 && !options_.collectives_address.empty()) {
    ASSIGN_OR_RETURN(const std::string address,
                     blame_option("collectives-address", collectives::resolve_address(options_.collectives_address)));
    ASSIGN_OR_RETURN(listener_, blame_option("collectives-address", collectives::TcpListener::open(address)));
  }
  return start_worker();
}

Status ShardDaemon::start_worker() {
  RankOptions rank;
  rank.rank = static_cast<int>(options_.rank);
  rank.world = static_cast<int>(options_.world);
  rank.whole_weights = whole_weights();
  const std::optional<DType> dtype = weight_type_from_name(options_.dtype);
  CHECK(dtype.has_value());  // the settings take no other
  rank.dtype = *dtype;
  rank.threads = static_cast<int>(options_.threads);
  rank.slots = static_cast<uint32_t>(options_.slots);
  RETURN_IF_ERROR(share_host(rank, *checkpoint_, shares_, host_place_));
  if (!rank.may_spin) {
    log_warning(
        "{} threads of this host's ranks are more than the {} cores that they may use: they wait for each other",
        host_place_.ranks * rank.threads, allowed_cores());
  }
  rank.listener = listener_;
  auto engine_rank = std::make_unique<EngineRank>(rank, checkpoint_, clock_);
  worker_ = std::make_unique<RankWorker>(std::make_unique<RankExecutor>(join_.rank, std::move(engine_rank)),
                                         [this](wire::Message answer) {
                                           {
                                             const std::scoped_lock lock(mutex_);
                                             answers_.push_back(std::move(answer));
                                           }
                                           transport_->wake();
                                         });
  return {};
}

std::vector<wire::Message> ShardDaemon::take_answers() {
  std::vector<wire::Message> answers;
  {
    const std::scoped_lock lock(mutex_);
    answers = std::exchange(answers_, {});
  }
  for (const auto& answer : answers) {
    if (std::holds_alternative<wire::Ready>(answer)) was_ready_ = true;
    const auto* failed = std::get_if<wire::Failed>(&answer);
    if (failed != nullptr && !was_ready_ && is_own_fault(failed->error.code)) cannot_start_ = failed->error;
  }
  return answers;
}

LoopOptions ShardDaemon::loop_options() const {
  LoopOptions options;
  options.group = options_.group;
  options.run_dir = options_.run_dir;
  options.join = join_;
  options.drain_seconds = options_.drain_seconds;
  auto& leader = options.leader;
  leader.group = fmt::format("krait-{}-{}", options_.group, getpid());
  leader.model = model_name_;
  leader.world = join_.world;
  leader.shares = shares_;
  leader.codec = sums_.codec;
  leader.plan = sums_.plan;
  leader.whole_weights = whole_weights();
  leader.prompt_ranks = prompt_ranks_;
  if (listener_ != nullptr) {
    leader.transport = "tcp";
    leader.address = listener_->address();
  }
  leader.self = join_;
  leader.slots = static_cast<uint32_t>(options_.slots);
  leader.max_queue = static_cast<uint32_t>(options_.max_queue);
  leader.max_step_ms = options_.max_step_ms;
  leader.vocab_size = checkpoint_->config().vocab_size;
  leader.incarnation = join_.incarnation;
  leader.new_epoch = random_u64;
  return options;
}

Status ShardDaemon::run(const std::atomic<int>& stop_requests) {
  const auto loop = make_shard_loop(loop_options(), {clock_, *transport_, endpoints_, *worker_, *shard_metrics_});
  while (true) {
    transport_->wait(limits::kCoreTickNs);
    auto answers = take_answers();
    const auto ended = loop->turn(cannot_start_ ? kStopAtOnce : stop_requests.load(), std::move(answers));
    if (cannot_start_) return *cannot_start_;  // the others were told in this turn
    if (ended) return *ended;
  }
}

}  // namespace krait::shard
