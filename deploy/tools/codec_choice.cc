#include "deploy/tools/codec_choice.h"

#include <algorithm>
#include <optional>

#include "common/base/check.h"

namespace krait::tools {
namespace {

constexpr double kLeastDamage = 1e-12;  // so that what costs nothing has a rate too

struct Change final {
  size_t sum = 0;
  size_t codec = 0;
  double rate = 0;
};

}  // namespace

CodecChoice choose_codecs(std::span<const SumCosts> sums, double budget) {
  CodecChoice choice(sums.size(), 0);
  while (true) {
    std::optional<Change> best;
    const double now = damage_of(sums, choice);
    for (size_t sum = 0; sum < sums.size(); ++sum) {
      const CodecCost& current = sums[sum][choice[sum]];
      for (size_t codec = 0; codec < sums[sum].size(); ++codec) {
        const CodecCost& other = sums[sum][codec];
        const double saved = current.bytes - other.bytes;
        const double added = other.damage - current.damage;
        // Also what is as small and milder: two codecs may have the same bytes.
        if (saved < 0 || (saved == 0 && added >= 0) || now + added > budget) continue;
        const double rate = saved == 0 ? 0 : saved / std::max(added, kLeastDamage);
        if (!best || rate > best->rate) best = Change{sum, codec, rate};
      }
    }
    if (!best) return choice;
    choice[best->sum] = best->codec;
  }
}

bool back_off(std::span<const SumCosts> sums, CodecChoice& choice) {
  std::optional<Change> best;
  for (size_t sum = 0; sum < sums.size(); ++sum) {
    const CodecCost& current = sums[sum][choice[sum]];
    for (size_t codec = 0; codec < sums[sum].size(); ++codec) {
      const CodecCost& other = sums[sum][codec];
      if (other.bytes <= current.bytes) continue;
      const double taken = std::max(current.damage - other.damage, kLeastDamage);
      const double rate = taken / (other.bytes - current.bytes);
      if (!best || rate > best->rate) best = Change{sum, codec, rate};
    }
  }
  if (!best) return false;
  choice[best->sum] = best->codec;
  return true;
}

Result<VerifiedChoice> choose_verified(std::span<const SumCosts> sums, double budget,
                                       const std::function<Result<double>(const CodecChoice&)>& run) {
  VerifiedChoice verified{.choice = choose_codecs(sums, budget)};
  const auto is_exact = [&] {
    return std::all_of(verified.choice.begin(), verified.choice.end(), [](size_t codec) { return codec == 0; });
  };
  while (!is_exact()) {
    ASSIGN_OR_RETURN(verified.damage, run(verified.choice));
    ++verified.runs;
    if (verified.damage <= budget) return verified;
    CHECK(back_off(sums, verified.choice));
  }
  verified.damage = 0;
  return verified;
}

double bytes_of(std::span<const SumCosts> sums, const CodecChoice& choice) {
  CHECK_EQ(sums.size(), choice.size());
  double bytes = 0;
  for (size_t sum = 0; sum < sums.size(); ++sum)
    bytes += sums[sum][choice[sum]].bytes;
  return bytes;
}

double damage_of(std::span<const SumCosts> sums, const CodecChoice& choice) {
  CHECK_EQ(sums.size(), choice.size());
  double damage = 0;
  for (size_t sum = 0; sum < sums.size(); ++sum)
    damage += sums[sum][choice[sum]].damage;
  return damage;
}

}  // namespace krait::tools
