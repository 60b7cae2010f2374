// krait-perplexity: how well a model foretells a text, and what a type of weights costs of that.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/limits.h"
#include "common/base/settings.h"
#include "common/base/version.h"
#include "common/weights/model_place.h"
#include "deploy/tools/perplexity.h"
#include "deploy/tools/run_tool.h"
#include "deploy/tools/text_sequences.h"
#include "shard_server/service/collective_plan.h"

namespace krait::tools {
namespace {

struct Options final {
  std::string model;
  std::string text;
  std::string dtype = "f32";
  std::string against = "none";
  std::string collectives = "exact";
  std::string collectives_plan;
  int64_t ranks = 1;
  int64_t threads = 1;
  int64_t context = 0;
  bool json = false;
};

Result<bool> read_options(int argc, char** argv, Options& o) {
  Settings settings("krait-perplexity", "Measures how well a model foretells a text.", version());
  settings.section("Model");
  settings.add("model", o.model, "a folder, a GGUF file, or org/name in Hugging Face's cache", true);
  settings.add_choice("dtype", o.dtype, "type of the weights in memory", weight_type_names());
  auto others = weight_type_names();
  others.insert(others.begin(), "none");
  settings.add_choice("against", o.against, "type of weights to compare with, token by token, sums exact", others);
  settings.section("Text");
  settings.add("text", o.text, "file of UTF-8; end-of-text tokens in it part documents", true);
  settings.add("context", o.context, "tokens that are foretold from one beginning; 0: all of a document", 0,
               limits::kMaxPromptTokens);
  settings.section("Group");
  settings.add("ranks", o.ranks, "ranks, as threads of this process", 1, limits::kMaxWorld);
  settings.add("threads", o.threads, "threads of each rank", 1, limits::kMaxThreads);
  settings.add_choice("collectives", o.collectives, "sums as", shard::sum_modes());
  settings.add("collectives-plan", o.collectives_plan, "file of krait-tune; none: beside the model, for auto");
  settings.section("Output");
  settings.add_flag("json", o.json, "as JSON");
  return settings.parse(argc, argv);
}

nlohmann::ordered_json json_of(const Options& o, size_t sequences, const Measured& measured) {
  const auto of_score = [](const std::string& dtype, const Score& score) {
    return nlohmann::ordered_json{
        {"dtype", dtype},           {"perplexity", score.perplexity()},
        {"nll", score.nll},         {"tokens", score.tokens},
        {"seconds", score.seconds}, {"tokens_per_s", static_cast<double>(score.tokens) / score.seconds}};
  };
  nlohmann::ordered_json out = of_score(o.dtype, measured.score);
  out["sequences"] = sequences;
  if (!measured.comparison) return out;
  const Comparison& comparison = *measured.comparison;
  const auto tokens = static_cast<double>(measured.score.tokens);
  out["against"] = of_score(o.against, comparison.against);
  out["perplexity_ratio"] = measured.score.perplexity() / comparison.against.perplexity();
  out["top1_agreement"] = static_cast<double>(comparison.agreed) / tokens;
  out["kl_divergence"] = comparison.divergence / tokens;
  return out;
}

std::string words_of(const nlohmann::ordered_json& report) {
  const auto line = [](const nlohmann::ordered_json& score) {
    return fmt::format("{:<5} perplexity {:.4f}, {} tokens, {:.0f} tokens/s\n", score["dtype"].get<std::string>(),
                       score["perplexity"].get<double>(), score["tokens"].get<int64_t>(),
                       score["tokens_per_s"].get<double>());
  };
  std::string text = line(report);
  if (!report.contains("against")) return text;
  text += line(report["against"]);
  text += fmt::format("perplexity {:+.3f} %, same token most likely {:.2f} %, KL divergence {:.6f} a token\n",
                      (report["perplexity_ratio"].get<double>() - 1) * 100,
                      report["top1_agreement"].get<double>() * 100, report["kl_divergence"].get<double>());
  return text;
}

Status measure(const Options& o) {
  ASSIGN_OR_RETURN(const ModelPlace place, find_model(o.model));
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(place.path));
  ASSIGN_OR_RETURN(const auto sequences, read_sequences(o.text, *checkpoint, o.context));
  const SteadyClock clock;
  LocalGroupOptions options;
  options.ranks = static_cast<int>(o.ranks);
  options.threads = static_cast<int>(o.threads);
  options.dtype = weight_type_from_name(o.dtype).value();
  RETURN_IF_ERROR(choose_sums(options, o.collectives, o.collectives_plan, *checkpoint));
  ASSIGN_OR_RETURN(const auto group, LocalGroup::start(checkpoint, options, clock));
  Foreteller model(*group, clock);
  std::unique_ptr<LocalGroup> other_group;
  std::optional<Foreteller> other;
  if (o.against != "none") {
    options.dtype = weight_type_from_name(o.against).value();
    options.codec = "exact";
    options.plan = {};
    ASSIGN_OR_RETURN(other_group, LocalGroup::start(checkpoint, options, clock));
    other.emplace(*other_group, clock);
  }
  ASSIGN_OR_RETURN(const Measured measured, foretell(sequences, model, other ? &*other : nullptr));
  const auto report = json_of(o, sequences.size(), measured);
  return print_out(o.json ? report.dump(1) + "\n" : words_of(report));
}

int run(int argc, char** argv) {
  Options options;
  return run_tool("krait-perplexity", read_options(argc, argv, options), [&] { return measure(options); });
}

}  // namespace
}  // namespace krait::tools

int main(int argc, char** argv) {
  return krait::tools::run(argc, argv);
}
