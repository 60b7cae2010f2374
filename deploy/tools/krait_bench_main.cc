// krait-bench: what a model costs on this machine, under the loads of a server.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/limits.h"
#include "common/base/number_list.h"
#include "common/base/process.h"
#include "common/base/settings.h"
#include "common/base/units.h"
#include "common/base/version.h"
#include "common/weights/model_place.h"
#include "deploy/tools/bench_phases.h"
#include "deploy/tools/bench_report.h"
#include "deploy/tools/machine_peaks.h"
#include "deploy/tools/published_shapes.h"
#include "deploy/tools/random_weights.h"
#include "deploy/tools/run_tool.h"
#include "shard_server/service/collective_plan.h"

namespace krait::tools {
namespace {

constexpr int64_t kReadBytes = 256 * kMiB;  // more than caches hold
constexpr double kReadSeconds = 0.1;

struct Options final {
  std::string model;
  std::string shape;
  std::string dtype = "bf16";
  std::string batches = "1,4,16,32";
  std::string collectives = "exact";
  std::string address;
  std::vector<std::string> networks;
  std::string overlap = "auto";
  std::string weights = "cut";
  int64_t prompt_ranks = 0;
  std::string load = "all";
  std::string collectives_plan;
  int64_t ranks = 1;
  int64_t threads = 1;
  int64_t repeat = 3;
  double max_step_ms = 50;
  PhaseSizes sizes;
  bool json = false;
};

Result<bool> read_options(int argc, char** argv, Options& o) {
  Settings settings("krait-bench", "Measures a model on this machine, under the loads of a server.", version());
  settings.section("Model");
  settings.add("model", o.model, "a folder, a GGUF file, or org/name in Hugging Face's cache");
  settings.add("shape", o.shape, fmt::format("or random weights of the sizes of {}", fmt::join(shape_names(), ", ")));
  settings.add_choice("dtype", o.dtype, "type of the weights in memory", weight_type_names());
  settings.section("Group");
  settings.add("ranks", o.ranks, "ranks, as threads of this process", 1, limits::kMaxWorld);
  settings.add("threads", o.threads, "threads of each rank", 1, limits::kMaxThreads);
  settings.add_choice("collectives", o.collectives, "sums as", shard::sum_modes());
  settings.add("collectives-plan", o.collectives_plan, "file of krait-tune; none: beside the model, for auto");
  settings.add("collectives-address", o.address,
               "where rank 0 listens, as 10.0.0.1:7100: TCP instead of shared memory");
  settings.add("network", o.networks, "network namespace of a rank (ip netns): once for each, rank 0's first");
  settings.add_choice("overlap", o.overlap, "sums over TCP travel while half of the rows are computed",
                      {"auto", "never"});
  settings.add_choice("weights", o.weights, "what a rank holds: its part of every layer, or the whole model",
                      {"cut", "whole"});
  settings.add("prompt-ranks", o.prompt_ranks, "ranks with whole weights that share a long prompt; 0: all", 0,
               limits::kMaxWorld);
  settings.add("max-step-ms", o.max_step_ms, "time that prefill may fill a step up to", 0.1, 60'000);
  settings.section("Load");
  settings.add_choice("load", o.load, "all loads, or a prompt alone", {"all", "prefill"});
  settings.add("prompt", o.sizes.prompt, "tokens of a prompt", 1, limits::kMaxPromptTokens);
  settings.add("generate", o.sizes.generate, "tokens that a sequence generates", 4, limits::kMaxGeneratedTokens);
  settings.add("batch", o.batches, "sequences that generate at once, as 1,4,16; prompts come beside the most of them");
  settings.add("repeat", o.repeat, "runs of each load; medians are shown", 1, 1000);
  settings.section("Output");
  settings.add_flag("json", o.json, "everything, as JSON");
  return settings.parse(argc, argv);
}

Result<std::vector<int64_t>> parse_batches(const std::string& text) {
  auto batches = parse_number_list<int64_t>(text);
  const auto is_batch = [](int64_t batch) { return batch >= 1 && batch <= limits::kDefaultMaxSlots; };
  if (batches && std::all_of(batches->begin(), batches->end(), is_batch)) return std::move(*batches);
  return Error{
      Errc::kInvalidArgument,
      fmt::format("--batch '{}' is no list of numbers from 1 to {}, as 1,4,16", text, limits::kDefaultMaxSlots),
      "batch"};
}

Status check_network(const Options& o) {
  if (o.networks.empty()) return {};
  if (o.address.empty())
    return Error{Errc::kInvalidArgument, "--network needs a --collectives-address in the first of them", "network"};
  if (std::ssize(o.networks) == o.ranks) return {};
  return Error{Errc::kInvalidArgument, fmt::format("--network {} times for {} ranks", o.networks.size(), o.ranks),
               "network"};
}

struct Model final {
  std::string name;
  std::shared_ptr<const Checkpoint> checkpoint;
};

Result<Model> open_model(const Options& o) {
  if (o.model.empty() == o.shape.empty())
    return Error{Errc::kInvalidArgument, "either --model or --shape says what is measured", "model"};
  Model model;
  if (o.model.empty()) {
    model.name = o.shape;
    const auto config = shape_config(o.shape);
    if (!config.ok()) return Error{Errc::kInvalidArgument, config.error().message, "shape"};
    ASSIGN_OR_RETURN(model.checkpoint, random_checkpoint(o.shape, *config));
  } else {
    ASSIGN_OR_RETURN(const ModelPlace place, find_model(o.model));
    model.name = place.name;
    ASSIGN_OR_RETURN(model.checkpoint, Checkpoint::open(place.path));
  }
  return model;
}

/// Both peaks of all threads of the group together. The group sleeps meanwhile.
class PeakMeter final {
 public:
  PeakMeter(int threads, DType dtype)
      : dtype_(dtype),
        stream_({.threads = threads, .path = kernels::best_cpu_path(), .may_spin = threads <= allowed_cores()}) {}

  Status allocate() {
    ASSIGN_OR_RETURN(std::byte * memory, arena_.allocate(kReadBytes));
    memory_ = {memory, static_cast<size_t>(kReadBytes)};
    std::fill(memory_.begin(), memory_.end(), std::byte{1});
    return {};
  }
  Peaks measure() { return {read_gbytes(stream_, memory_, kReadSeconds), peak_gops(stream_, dtype_)}; }

 private:
  const DType dtype_;
  kernels::Stream stream_;
  kernels::Arena arena_{"the memory that is read to find its rate"};
  std::span<std::byte> memory_;
};

std::vector<PhaseReport> phases_of(const Options& o, const std::vector<int64_t>& batches) {
  std::vector<PhaseReport> phases{{{Load::kPrefill, 1}, {}, {}}};
  if (o.load == "prefill") return phases;
  for (const int64_t batch : batches)
    phases.push_back({{Load::kDecode, batch}, {}, {}});
  phases.push_back({{Load::kMixed, *std::max_element(batches.begin(), batches.end())}, {}, {}});
  return phases;
}

/// Every load `repeat` times, in turn, with the peaks before and after each; then each once for its profile. What the
/// scheduler learns about the cost of rows, it learns in a run that does not count.
Status run_phases(const Options& o, const PhaseSizes& sizes, BenchServer& server, const Roofline& roofline,
                  PeakMeter& meter, const Clock& clock, std::vector<PhaseReport>& phases) {
  uint64_t seed = 1;
  for (const auto& warm_up : {phases[std::min<size_t>(1, phases.size() - 1)].phase, phases[0].phase, phases[0].phase})
    RETURN_IF_ERROR(run_phase(server, warm_up, sizes, seed++, clock));
  Peaks before = meter.measure();
  for (int64_t i = 0; i < o.repeat; ++i) {
    for (PhaseReport& report : phases) {
      ASSIGN_OR_RETURN(const PhaseRun run, run_phase(server, report.phase, sizes, seed++, clock));
      const Peaks after = meter.measure();
      const Peaks mean{(before.read_gbytes + after.read_gbytes) / 2, (before.gops + after.gops) / 2};
      report.runs.push_back(figures_of(run, roofline, mean));
      before = after;
    }
  }
  server.set_profiling(true);
  for (PhaseReport& report : phases) {
    ASSIGN_OR_RETURN(const PhaseRun run, run_phase(server, report.phase, sizes, seed++, clock));
    report.profile = profile_of(run);
  }
  server.set_profiling(false);
  return {};
}

Status bench(const Options& o) {
  ASSIGN_OR_RETURN(const auto batches, parse_batches(o.batches));
  RETURN_IF_ERROR(check_network(o));
  ASSIGN_OR_RETURN(const Model model, open_model(o));
  const SteadyClock clock;
  LocalGroupOptions group_options;
  group_options.ranks = static_cast<int>(o.ranks);
  group_options.threads = static_cast<int>(o.threads);
  group_options.may_overlap = o.overlap == "auto";
  group_options.whole_weights = o.weights == "whole";
  group_options.prompt_ranks = static_cast<uint32_t>(o.prompt_ranks);
  group_options.address = o.address;
  group_options.networks = o.networks;
  group_options.dtype = weight_type_from_name(o.dtype).value();
  RETURN_IF_ERROR(choose_sums(group_options, o.collectives, o.collectives_plan, *model.checkpoint));
  group_options.slots =
      static_cast<uint32_t>(*std::max_element(batches.begin(), batches.end())) + static_cast<uint32_t>(kMixedPrompts);
  ASSIGN_OR_RETURN(const auto group, LocalGroup::start(model.checkpoint, group_options, clock));
  PeakMeter meter(static_cast<int>(o.ranks * o.threads), group_options.dtype);
  RETURN_IF_ERROR(meter.allocate());
  BenchServer server(*group, o.max_step_ms, clock);
  const Roofline roofline(model.checkpoint->plan(), group_options.ranks, group_options.dtype);

  BenchSubject subject;
  subject.model = model.name;
  subject.dtype = o.dtype;
  subject.path = kernels::cpu_path_name(kernels::best_cpu_path());
  subject.collectives = o.collectives;
  subject.ranks = group_options.ranks;
  subject.threads = group_options.threads;
  subject.repeat = o.repeat;
  subject.max_step_ms = o.max_step_ms;
  subject.sizes = o.sizes;
  subject.sizes.vocabulary = model.checkpoint->config().vocab_size;
  subject.weight_bytes = static_cast<int64_t>(group->ready().weight_bytes);
  subject.state_bytes = roofline.state_bytes();
  subject.max_rows = group->ready().max_rows;
  auto phases = phases_of(o, batches);
  RETURN_IF_ERROR(run_phases(o, subject.sizes, server, roofline, meter, clock, phases));
  return print_out(o.json ? json_of(subject, phases).dump(1) + "\n" : table_of(subject, phases));
}

int run(int argc, char** argv) {
  Options options;
  return run_tool("krait-bench", read_options(argc, argv, options), [&] { return bench(options); });
}

}  // namespace
}  // namespace krait::tools

int main(int argc, char** argv) {
  return krait::tools::run(argc, argv);
}
