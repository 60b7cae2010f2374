// krait-tune: measures what sums between ranks cost and what their codecs do to a model, and writes the plan that
// --collectives auto reads.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/base/limits.h"
#include "common/base/process.h"
#include "common/base/settings.h"
#include "common/base/version.h"
#include "common/weights/model_place.h"
#include "deploy/tools/link_measure.h"
#include "deploy/tools/run_tool.h"
#include "deploy/tools/sum_quality.h"
#include "deploy/tools/text_sequences.h"
#include "deploy/tools/tune_report.h"
#include "shard_server/collectives/tcp_socket.h"
#include "shard_server/service/collective_plan.h"
#include "shard_server/service/plan_file.h"

namespace krait::tools {
namespace {

using Sequences = std::vector<std::vector<int32_t>>;

struct Options final {
  std::string model;
  std::string dtype = "f32";
  std::string quality;
  std::string check;
  double budget = 0.003;
  int64_t tokens = 4096;
  int64_t context = 0;
  int64_t ranks = 2;
  int64_t threads = 1;
  std::string transport = "shared_memory";
  std::string address;
  int64_t rank = 0;
  std::string out;
  bool json = false;
};

Result<bool> read_options(int argc, char** argv, Options& o) {
  Settings settings("krait-tune", "Finds how sums between ranks should travel, and writes it for --collectives auto.",
                    version());
  settings.section("Model");
  settings.add("model", o.model, "a folder, a GGUF file, or org/name in Hugging Face's cache (rank 0's)");
  settings.add_choice("dtype", o.dtype, "type of the weights in memory", weight_type_names());
  settings.section("Quality");
  settings.add("quality", o.quality, "file of UTF-8, to choose codecs by; none: all sums stay exact");
  settings.add("check", o.check, "file of UTF-8 on which the plan must hold the budget; none: that of --quality");
  settings.add("budget", o.budget, "relative change of perplexity that a plan may make", 0, 1);
  settings.add("tokens", o.tokens, "tokens of a text that are foretold, from its beginning", 16,
               limits::kMaxPromptTokens);
  settings.add("context", o.context, "tokens that are foretold from one beginning; 0: all of a document", 0,
               limits::kMaxPromptTokens);
  settings.section("Group");
  settings.add("ranks", o.ranks, "ranks, as threads of this process", 2, limits::kMaxWorld);
  settings.add("threads", o.threads, "threads of each rank", 1, limits::kMaxThreads);
  settings.add_choice("transport", o.transport, "between ranks of this host", {"shared_memory", "tcp"});
  settings.add("collectives-address", o.address,
               "host:port of rank 0: measures between hosts, a process a rank, over TCP; none: here alone");
  settings.add("rank", o.rank, "this process, where there is an address; 0 has the model and writes", 0,
               limits::kMaxWorld - 1);
  settings.section("Output");
  settings.add("out", o.out, "the plan; none: where --collectives auto looks for it, beside the model");
  settings.add_flag("json", o.json, "the report as JSON");
  return settings.parse(argc, argv);
}

Result<LinkOptions> link_options(const Options& o) {
  LinkOptions links;
  links.transport = o.transport;
  links.world = static_cast<int>(o.ranks);
  const bool between_hosts = !o.address.empty();
  links.may_spin = (between_hosts ? 1 : o.ranks) * o.threads <= allowed_cores();
  if (!between_hosts) return links;
  links.transport = "tcp";
  links.rank = static_cast<int>(o.rank);
  ASSIGN_OR_RETURN(links.address, blame_option("collectives-address", collectives::resolve_address(o.address)));
  if (o.rank == 0) {
    ASSIGN_OR_RETURN(links.listener,
                     blame_option("collectives-address", collectives::TcpListener::open(links.address)));
  }
  return links;
}

std::vector<collectives::Codec> codecs_from(const CodecChoice& choice) {
  std::vector<collectives::Codec> codecs;
  for (const size_t index : choice)
    codecs.push_back(static_cast<collectives::Codec>(index));
  return codecs;
}

struct Texts final {
  Sequences quality;
  Sequences check;  // empty: the same
};

Result<Sequences> read_text(const Options& o, const std::string& path, const Checkpoint& checkpoint) {
  if (path.empty()) return Sequences();
  ASSIGN_OR_RETURN(auto sequences, read_sequences(path, checkpoint, o.context));
  return first_tokens(std::move(sequences), o.tokens);
}

Result<QualityReport> measure_quality(const Options& o, const std::shared_ptr<const Checkpoint>& checkpoint,
                                      const Texts& texts, const Clock& clock) {
  LocalGroupOptions options;
  options.ranks = static_cast<int>(o.ranks);
  options.threads = static_cast<int>(o.threads);
  options.dtype = weight_type_from_name(o.dtype).value();
  ASSIGN_OR_RETURN(const auto group, LocalGroup::start(checkpoint, options, clock));
  ASSIGN_OR_RETURN(const auto quality, SumQuality::start(*group, texts.quality, clock));
  QualityReport report;
  report.sums = quality->sums();
  report.exact = quality->exact();
  report.budget = o.budget;
  for (size_t sum = 0; sum < report.sums.size(); ++sum) {
    ASSIGN_OR_RETURN(auto damages, quality->measure(sum));
    report.damages.push_back(std::move(damages));
  }
  const auto costs = costs_of(report.damages, checkpoint->config().hidden_size);
  std::unique_ptr<SumQuality> other;
  if (!texts.check.empty()) {
    ASSIGN_OR_RETURN(other, SumQuality::start(*group, texts.check, clock));
  }
  SumQuality& judge = other != nullptr ? *other : *quality;
  double change = 0;
  const auto run = [&](const CodecChoice& choice) -> Result<double> {
    ASSIGN_OR_RETURN(change, judge.perplexity_change(codecs_from(choice)));
    return std::abs(change);
  };
  ASSIGN_OR_RETURN(const VerifiedChoice verified, choose_verified(costs, o.budget, run));
  report.choice = verified.choice;
  report.runs = verified.runs;
  report.perplexity_change = verified.damage == 0 ? 0 : change;
  report.bytes_per_token = bytes_of(costs, report.choice);
  report.exact_bytes_per_token = bytes_of(costs, CodecChoice(costs.size(), 0));
  return report;
}

/// The file beside the one that it will be: whether it can be written is known before minutes are spent, and whoever
/// reads the plan meanwhile finds the old one whole.
class PlanOutput final {
 public:
  explicit PlanOutput(std::string path)
      : path_(std::move(path)), draft_(fmt::format("{}.{}.new", path_, getpid())), out_(draft_, std::ios::binary) {}
  ~PlanOutput() { std::remove(draft_.c_str()); }
  PlanOutput(const PlanOutput&) = delete;
  PlanOutput& operator=(const PlanOutput&) = delete;

  const std::string& path() const { return path_; }
  Status check() const {
    if (out_) return {};
    return Error{Errc::kIo, fmt::format("{} cannot be written", path_), "out"};
  }
  Status finish(const shard::PlanFile& file) {
    out_ << shard::plan_file_text(file);
    out_.close();
    RETURN_IF_ERROR(check());
    if (std::rename(draft_.c_str(), path_.c_str()) != 0) out_.setstate(std::ios::failbit);
    return check();
  }

 private:
  const std::string path_;
  const std::string draft_;
  std::ofstream out_;
};

Status tune(const Options& o) {
  const SteadyClock clock;
  if (o.rank >= o.ranks) {
    return Error{Errc::kInvalidArgument, fmt::format("rank {} does not exist among {} ranks", o.rank, o.ranks), "rank"};
  }
  ASSIGN_OR_RETURN(const LinkOptions links, link_options(o));
  if (links.rank > 0) {
    const auto measured = measure_links(links, clock);
    return measured.ok() ? Status() : Status(measured.error());
  }
  if (o.model.empty()) return Error{Errc::kInvalidArgument, "--model is required", "model"};
  ASSIGN_OR_RETURN(const ModelPlace place, find_model(o.model));
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(place.path));
  PlanOutput out(o.out.empty() ? shard::default_plan_path(*checkpoint, static_cast<uint32_t>(o.ranks)) : o.out);
  RETURN_IF_ERROR(out.check());
  if (!o.check.empty() && o.quality.empty())
    return Error{Errc::kInvalidArgument, "--check needs a --quality to choose by", "check"};
  Texts texts;
  ASSIGN_OR_RETURN(texts.quality, read_text(o, o.quality, *checkpoint));
  ASSIGN_OR_RETURN(texts.check, read_text(o, o.check, *checkpoint));
  TuneReport report;
  report.out = out.path();
  report.transport = links.transport;
  ASSIGN_OR_RETURN(report.links, measure_links(links, clock));
  report.file.fingerprint = checkpoint->fingerprint();
  report.file.world = static_cast<uint32_t>(o.ranks);
  report.file.dtype = o.dtype;
  report.file.plan.algorithms = algorithms_from(report.links);
  report.file.plan.codecs_by_size = codecs_by_size_from(report.links);
  if (!o.quality.empty()) {
    ASSIGN_OR_RETURN(report.quality, measure_quality(o, checkpoint, texts, clock));
  }
  const auto sums = shard::hidden_sums(checkpoint->plan());
  for (size_t sum = 0; sum < sums.size(); ++sum) {
    const auto& codec = collectives::all_codecs()[report.quality ? report.quality->choice[sum] : 0];
    report.file.plan.sums.push_back(
        {static_cast<uint32_t>(sums[sum].layer), std::string(sums[sum].operation), std::string(codec.name)});
  }
  RETURN_IF_ERROR(out.finish(report.file));
  return print_out(o.json ? json_of(report) : words_of(report));
}

int run(int argc, char** argv) {
  Options options;
  return run_tool("krait-tune", read_options(argc, argv, options), [&] { return tune(options); });
}

}  // namespace
}  // namespace krait::tools

int main(int argc, char** argv) {
  return krait::tools::run(argc, argv);
}
