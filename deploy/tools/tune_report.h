// What krait-tune found, for people and for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deploy/tools/link_measure.h"
#include "deploy/tools/sum_quality.h"
#include "shard_server/service/plan_file.h"

namespace krait::tools {

struct QualityReport final {
  std::vector<shard::HiddenSum> sums;
  std::vector<std::vector<CodecDamage>> damages;  // by sum, by codec
  Score exact;
  double budget = 0;
  CodecChoice choice;
  double perplexity_change = 0;  // of the choice, relative
  int runs = 0;                  // choices that were run
  double bytes_per_token = 0;    // of one rank, all hidden sums, as chosen
  double exact_bytes_per_token = 0;
};

struct TuneReport final {
  std::string transport;
  std::string out;  // the plan's path
  std::vector<LinkFigure> links;
  shard::PlanFile file;
  std::optional<QualityReport> quality;
};

std::string json_of(const TuneReport& report);
std::string words_of(const TuneReport& report);

}  // namespace krait::tools
