#include "deploy/tools/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "common/base/units.h"

namespace krait::tools {
namespace {

/// The value that a share `q` of them does not exceed; 0 where there are none.
double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at = values.begin() + std::lround(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

template <class Field>
double median(const std::vector<PhaseFigures>& runs, Field field) {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const PhaseFigures& run : runs)
    values.push_back(field(run));
  return quantile(values, 0.5);
}

/// A field of the JSON.
struct Figure final {
  const char* name;
  double (*of)(const PhaseFigures&);
};
constexpr Figure kFigures[] = {
    {"prompt_tokens_per_s", [](const PhaseFigures& f) { return f.prompt_rate; }},
    {"generated_tokens_per_s", [](const PhaseFigures& f) { return f.generated_rate; }},
    {"first_token_ms", [](const PhaseFigures& f) { return f.first_token_ms; }},
    {"between_tokens_p50_ms", [](const PhaseFigures& f) { return f.between_p50_ms; }},
    {"between_tokens_p99_ms", [](const PhaseFigures& f) { return f.between_p99_ms; }},
    {"rows_per_step", [](const PhaseFigures& f) { return f.rows_per_step; }},
    {"reading_share", [](const PhaseFigures& f) { return f.reading_share; }},
    {"multiplying_share", [](const PhaseFigures& f) { return f.multiplying_share; }},
    {"roofline_share", [](const PhaseFigures& f) { return f.roofline_share; }},
    {"cores_used", [](const PhaseFigures& f) { return f.cores_used; }},
    {"tokens_per_core_s", [](const PhaseFigures& f) { return f.tokens_per_core_s; }},
    {"read_gbytes_per_s", [](const PhaseFigures& f) { return f.peaks.read_gbytes; }},
    {"peak_gops", [](const PhaseFigures& f) { return f.peaks.gops; }},
};

/// A number, or null for "none".
nlohmann::ordered_json number_or_null(double value) {
  return value == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
}

/// Of the table: a figure under a shorter name.
struct Column final {
  std::string_view figure;
  std::string_view title;
  int width = 0;
  int decimals = 0;
  double factor = 1;
};
constexpr Column kColumns[] = {
    {"prompt_tokens_per_s", "prompt/s", 10, 1},
    {"generated_tokens_per_s", "gener./s", 10, 1},
    {"tokens_per_core_s", "per core s", 12, 1},
    {"first_token_ms", "1st tok ms", 12, 1},
    {"between_tokens_p50_ms", "p50 ms", 9, 2},
    {"between_tokens_p99_ms", "p99 ms", 9, 2},
    {"rows_per_step", "rows/step", 11, 1},
    {"roofline_share", "roofline %", 12, 1, 100},
    {"cores_used", "cores", 7, 2},
    {"read_gbytes_per_s", "GB/s", 7, 1},
    {"peak_gops", "Gop/s", 8, 0},
};

/// Name and milliseconds of everything that a step's time went to, in the order of the report.
std::vector<std::pair<std::string, double>> parts_of(const PhaseProfile& profile) {
  std::vector<std::pair<std::string, double>> parts;
  double known_ms = 0;
  const auto add = [&](std::string name, double ns) {
    parts.emplace_back(std::move(name), ns / kMs);
    known_ms += ns / kMs;
  };
  for (size_t kind = 0; kind < kernels::kKernelKinds; ++kind)
    add(std::string(kernels::kKernelKindNames[kind]), profile.step.kernel_ns[kind]);
  for (int op = 0; op < collectives::kOpKinds; ++op) {
    const auto name = collectives::op_name(static_cast<collectives::OpKind>(op));
    if (profile.step.collective_ns[static_cast<size_t>(op)] == 0) continue;
    add(std::string(name), profile.step.collective_ns[static_cast<size_t>(op)]);
    add(fmt::format("{}_wait", name), profile.step.wait_ns[static_cast<size_t>(op)]);
  }
  const double engine_ms = profile.step.total_ns / kMs;
  parts.emplace_back("other", std::max(0.0, engine_ms - known_ms));
  parts.emplace_back("between_steps", std::max(0.0, profile.step_ms - engine_ms));
  return parts;
}

std::string title_of(const Phase& phase) {
  return phase.load == Load::kPrefill ? "prefill" : fmt::format("{} {}", load_name(phase.load), phase.batch);
}

}  // namespace

PhaseFigures figures_of(const PhaseRun& run, const Roofline& roofline, const Peaks& peaks) {
  PhaseFigures figures;
  figures.peaks = peaks;
  figures.prompt_rate = static_cast<double>(run.prompt_tokens()) / run.seconds;
  figures.generated_rate = static_cast<double>(run.generated_tokens()) / run.seconds;
  figures.first_token_ms = run.first_token_ms;
  figures.cores_used = run.core_seconds / run.seconds;
  figures.tokens_per_core_s = static_cast<double>(run.prompt_tokens() + run.generated_tokens()) / run.core_seconds;
  figures.between_p50_ms = quantile(run.between_ms, 0.5);
  figures.between_p99_ms = quantile(run.between_ms, 0.99);
  figures.rows_per_step =
      static_cast<double>(run.prompt_tokens() + run.generated_tokens()) / static_cast<double>(run.steps.size());
  Work all;
  double roof_seconds = 0;
  for (const StepRecord& step : run.steps) {
    const Work work = roofline.of(step);
    all = all + work;
    roof_seconds += Roofline::seconds(work, peaks);
  }
  figures.reading_share = all.bytes / peaks.read_gbytes * 1e-9 / run.seconds;
  figures.multiplying_share = peaks.gops > 0 ? all.operations / peaks.gops * 1e-9 / run.seconds : 0;
  figures.roofline_share = roof_seconds / run.seconds;
  return figures;
}

PhaseProfile profile_of(const PhaseRun& run) {
  PhaseProfile profile;
  const double share = 1.0 / static_cast<double>(run.steps.size());
  profile.step_ms = run.seconds * 1e3 * share;
  profile.rows_per_step = static_cast<double>(run.prompt_tokens() + run.generated_tokens()) * share;
  for (const StepRecord& step : run.steps) {
    profile.step.total_ns += step.profile->total_ns * share;
    for (size_t kind = 0; kind < kernels::kKernelKinds; ++kind)
      profile.step.kernel_ns[kind] += step.profile->kernel_ns[kind] * share;
    profile.step.sent_bytes += step.profile->sent_bytes * share;
    for (size_t op = 0; op < collectives::kOpKinds; ++op) {
      profile.step.collective_ns[op] += step.profile->collective_ns[op] * share;
      profile.step.wait_ns[op] += step.profile->wait_ns[op] * share;
    }
  }
  return profile;
}

std::string table_of(const BenchSubject& subject, const std::vector<PhaseReport>& phases) {
  std::string text = fmt::format(
      "{} {}, ranks {}, threads of each {}, {}: {:.1f} MiB of weights, {:.2f} MiB a state; prompt {}, generate {}, "
      "steps "
      "up "
      "to {} ms, medians of {}\n\n",
      subject.model, subject.dtype, subject.ranks, subject.threads, subject.path,
      static_cast<double>(subject.weight_bytes) / kMiB, static_cast<double>(subject.state_bytes) / kMiB,
      subject.sizes.prompt, subject.sizes.generate, subject.max_step_ms, subject.repeat);
  text += fmt::format("{:<12}", "");
  for (const Column& column : kColumns)
    text += fmt::format("{:>{}}", column.title, column.width);
  text += "\n";
  for (const PhaseReport& report : phases) {
    text += fmt::format("{:<12}", title_of(report.phase));
    for (const Column& column : kColumns) {
      const auto* const figure = std::find_if(std::begin(kFigures), std::end(kFigures), [&](const Figure& f) {
        return std::string_view(f.name) == column.figure;
      });
      const double value = median(report.runs, figure->of);
      const std::string cell = value == 0 ? "-" : fmt::format("{:.{}f}", value * column.factor, column.decimals);
      text += fmt::format("{:>{}}", cell, column.width);
    }
    text += "\n";
  }
  text += "\nWhere a step's time goes, in % (a run of its own, one step at a time):\n";
  for (const PhaseReport& report : phases) {
    text += fmt::format("{:<12}{:8.2f} ms ", title_of(report.phase), report.profile.step_ms);
    for (const auto& [name, ms] : parts_of(report.profile)) {
      if (ms >= report.profile.step_ms * 5e-4)
        text += fmt::format(" {} {:.1f}", name, ms / report.profile.step_ms * 100);
    }
    text += "\n";
  }
  return text;
}

nlohmann::ordered_json json_of(const BenchSubject& subject, const std::vector<PhaseReport>& phases) {
  nlohmann::ordered_json out = {
      {"model", subject.model},
      {"dtype", subject.dtype},
      {"path", subject.path},
      {"collectives", subject.collectives},
      {"ranks", subject.ranks},
      {"threads", subject.threads},
      {"prompt", subject.sizes.prompt},
      {"generate", subject.sizes.generate},
      {"max_step_ms", subject.max_step_ms},
      {"repeat", subject.repeat},
      {"weight_bytes", subject.weight_bytes},
      {"state_bytes", subject.state_bytes},
      {"max_rows", subject.max_rows},
  };
  for (const PhaseReport& report : phases) {
    nlohmann::ordered_json phase = {{"phase", load_name(report.phase.load)}, {"batch", report.phase.batch}};
    for (const Figure& figure : kFigures) {
      phase[figure.name] = number_or_null(median(report.runs, figure.of));
      for (const PhaseFigures& run : report.runs)
        phase["runs"][figure.name].push_back(number_or_null(figure.of(run)));
    }
    phase["profile"] = {{"step_ms", report.profile.step_ms},
                        {"rows_per_step", report.profile.rows_per_step},
                        {"sent_bytes", report.profile.step.sent_bytes}};
    for (const auto& [name, ms] : parts_of(report.profile))
      phase["profile"]["ms"][name] = ms;
    out["phases"].push_back(std::move(phase));
  }
  return out;
}

}  // namespace krait::tools
