#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/parameters/amount.h"
#include "sim/results/paired_bootstrap.h"
#include "sim/results/result.h"

namespace kvsim {

/// Which of two values of a metric a policy should have.
enum class Preferred { higher, lower, neither };

Preferred preferred(std::string_view metric);

/// The column of `replay` that can be compared: any number outside the key. Throws UsageError,
/// which names the nearest one.
const Column& metric_column(const std::string& name);

/// The difference of a metric between two policies, the first less the second, at one budget and
/// mode.
struct Difference {
  Value budget;  ///< tokens; the budget as requested if units have it as several numbers of tokens
  std::string mode;
  Estimate estimate;
  std::size_t samples = 0;
  bool of_sequences = false;  ///< what a sample is: a sequence, or a unit

  bool has_enough_samples() const { return samples >= PairedBootstrap::kFewestSamples; }

  /// Whether the data say which policy has more.
  bool is_distinguishable() const {
    return has_enough_samples() && estimate.interval && !estimate.interval->contains(0);
  }
};

/// Rows that only one of two policies has, which cannot be compared.
struct Unpaired {
  std::int64_t rows = 0;
  std::vector<std::string> budgets;  ///< as requested, without duplicates
};

/// Units in prefill mode that have pairs, but none asked for by the share that was selected. Some
/// may have as many tokens: rows do not hold the length of the prompt.
struct RequestedOtherwise {
  std::int64_t units = 0;
  std::vector<std::string> budgets;  ///< as requested, without duplicates
};

struct PairedComparison {
  std::vector<Difference> differences;  ///< ordered by mode and budget
  Unpaired only_first;
  Unpaired only_second;
  RequestedOtherwise otherwise;
};

/// Compares the rows of two policies, of which neither is empty. Two rows make a pair if they are
/// of the same unit, budget in tokens, mode and seed. A unit's value is the mean over its seeds.
///
/// There is a difference for every mode and budget as requested: a number of tokens stands for all
/// pairs at this budget. In stream mode a share stands for all pairs with that share of the steps;
/// in prefill mode for those of which either row was asked for by this share, however it was
/// written (20%, 0.2). `budget` selects one of them.
///
/// Throws UsageError if no pair is there, or if the metric is NULL in a row of a pair.
PairedComparison compare_rows(const std::vector<Result>& first, const std::vector<Result>& second,
                              const Column& metric, const std::optional<Amount>& budget);

}  // namespace kvsim
