// Which sum gets which codec: the least bytes whose damage stays within a budget. Numbers only, no model.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "common/base/result.h"

namespace krait::tools {

/// What one codec means for one sum.
struct CodecCost final {
  double bytes = 0;   // of a row as it travels
  double damage = 0;  // to what the budget is of; not negative
};
/// Of one sum, by codec; the first one is exact: no damage.
using SumCosts = std::vector<CodecCost>;
/// By sum: an index into its SumCosts.
using CodecChoice = std::vector<size_t>;

/// Greedy: from exact on, again and again the change of one sum's codec that saves most bytes for the damage that it
/// adds, among those with which all damage together stays within `budget`.
CodecChoice choose_codecs(std::span<const SumCosts> sums, double budget);

/// One step back from a choice that did more damage together than its parts promised: the sum whose next milder codec
/// takes away most damage for the bytes that it costs gets that. Damages that are 0 by luck count a little. False where
/// every sum is exact already.
bool back_off(std::span<const SumCosts> sums, CodecChoice& choice);

struct VerifiedChoice final {
  CodecChoice choice;
  double damage = 0;  // of the whole choice, as it was run
  int runs = 0;
};

/// choose_codecs(), then back_off() for as long as the choice itself does more damage than `budget`. `run` gives that,
/// not negative. What is all exact is not run.
Result<VerifiedChoice> choose_verified(std::span<const SumCosts> sums, double budget,
                                       const std::function<Result<double>(const CodecChoice&)>& run);

double bytes_of(std::span<const SumCosts> sums, const CodecChoice& choice);
double damage_of(std::span<const SumCosts> sums, const CodecChoice& choice);

}  // namespace krait::tools
