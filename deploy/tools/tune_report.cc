#include "deploy/tools/tune_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/base/units.h"

namespace krait::tools {
namespace {

using collectives::CodecEntry;
using Json = nlohmann::ordered_json;

/// Bytes of a rank's part by the time of the largest exact sum.
double gbytes_per_s(const TuneReport& report) {
  const LinkFigure* largest = fastest(report.links, collectives::Codec::kFloat32, link_sizes().back());
  return largest != nullptr ? static_cast<double>(largest->part_bytes) / largest->seconds / 1e9 : 0;
}

double latency_us(const TuneReport& report) {
  const LinkFigure* least = fastest(report.links, collectives::Codec::kFloat32, link_sizes().front());
  return least != nullptr ? least->seconds * 1e6 : 0;
}

Json links_json(const TuneReport& report) {
  Json sums = Json::array();
  for (const LinkFigure& figure : report.links) {
    sums.push_back({{"codec", collectives::codec_entry(figure.codec).name},
                    {"float_bytes", figure.float_bytes},
                    {"part_bytes", figure.part_bytes},
                    {"two_shot", figure.two_shot},
                    {"stage_bytes", figure.stage_bytes},
                    {"us", figure.seconds * 1e6}});
  }
  return {{"latency_us", latency_us(report)}, {"gbytes_per_s", gbytes_per_s(report)}, {"sums", std::move(sums)}};
}

Json quality_json(const QualityReport& quality) {
  Json sums = Json::array();
  for (size_t sum = 0; sum < quality.sums.size(); ++sum) {
    Json codecs = Json::object();
    for (const CodecEntry& codec : collectives::all_codecs()) {
      const CodecDamage& damage = quality.damages[sum][static_cast<size_t>(codec.codec)];
      codecs[std::string(codec.name)] = {{"error", damage.error}, {"perplexity_change", damage.perplexity_change}};
    }
    sums.push_back({{"layer", quality.sums[sum].layer},
                    {"operation", quality.sums[sum].operation},
                    {"chosen", collectives::all_codecs()[quality.choice[sum]].name},
                    {"codecs", std::move(codecs)}});
  }
  return {{"tokens", quality.exact.tokens},
          {"perplexity", quality.exact.perplexity()},
          {"budget", quality.budget},
          {"perplexity_change", quality.perplexity_change},
          {"plans_run", quality.runs},
          {"bytes_per_token", quality.bytes_per_token},
          {"exact_bytes_per_token", quality.exact_bytes_per_token},
          {"sums", std::move(sums)}};
}

std::string size_name(int64_t bytes) {
  return bytes >= kMiB ? fmt::format("{} MiB", bytes / kMiB) : fmt::format("{} KiB", bytes / kKiB);
}

std::string links_table(const TuneReport& report) {
  std::string text = fmt::format(
      "Sums over {}, {} ranks: {:.1f} us for {}, {:.2f} GB/s for {}.\n"
      "Microseconds of a sum by its size as floats; behind them shots, and KiB of a part on the way in one "
      "step.\n\n{:<9}",
      report.transport, report.file.world, latency_us(report), size_name(link_sizes().front()), gbytes_per_s(report),
      size_name(link_sizes().back()), "");
  for (const CodecEntry& codec : collectives::all_codecs())
    text += fmt::format("{:>18}", codec.name);
  for (const int64_t size : link_sizes()) {
    text += fmt::format("\n{:<9}", size_name(size));
    for (const CodecEntry& codec : collectives::all_codecs()) {
      const LinkFigure* best = fastest(report.links, codec.codec, size);
      text += best == nullptr ? fmt::format("{:>18}", "")
                              : fmt::format("{:>10.1f} {} {:>5}", best->seconds * 1e6, best->two_shot ? 2 : 1,
                                            best->stage_bytes / kKiB);
    }
  }
  return text + "\n";
}

std::string quality_table(const QualityReport& quality) {
  std::string text = fmt::format(
      "\nCodecs of one sum while all others are exact, on {} tokens of perplexity {:.4f}:\n"
      "error by the residual's size, and change of perplexity in percent.\n\n{:<6}{:<10}",
      quality.exact.tokens, quality.exact.perplexity(), "layer", "sum");
  for (const CodecEntry& codec : collectives::all_codecs().subspan(1))
    text += fmt::format("{:>20}", codec.name);
  text += "  chosen";
  for (size_t sum = 0; sum < quality.sums.size(); ++sum) {
    text += fmt::format("\n{:<6}{:<10}", quality.sums[sum].layer, quality.sums[sum].operation);
    for (const CodecEntry& codec : collectives::all_codecs().subspan(1)) {
      const CodecDamage& damage = quality.damages[sum][static_cast<size_t>(codec.codec)];
      text += fmt::format("{:>11.6f} {:>+8.4f}", damage.error, damage.perplexity_change * 100);
    }
    text += fmt::format("  {}", collectives::all_codecs()[quality.choice[sum]].name);
  }
  return text +
         fmt::format(
             "\n\nAll as chosen: perplexity {:+.4f} % (budget {:.4f} %; plans run: {}), {:.0f} bytes a token and "
             "rank of {:.0f}.\n",
             quality.perplexity_change * 100, quality.budget * 100, quality.runs, quality.bytes_per_token,
             quality.exact_bytes_per_token);
}

}  // namespace

std::string json_of(const TuneReport& report) {
  Json json = {{"plan", report.out},         {"fingerprint", report.file.fingerprint}, {"world", report.file.world},
               {"dtype", report.file.dtype}, {"transport", report.transport},          {"links", links_json(report)}};
  if (report.quality) json["quality"] = quality_json(*report.quality);
  return json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::string words_of(const TuneReport& report) {
  std::string text = links_table(report);
  if (report.quality) text += quality_table(*report.quality);
  return text + fmt::format("\nWritten to {}: for --collectives auto of this model with {} ranks and {} weights.\n",
                            report.out, report.file.world, report.file.dtype);
}

}  // namespace krait::tools
