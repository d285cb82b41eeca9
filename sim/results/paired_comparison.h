#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/amount.h"
#include "sim/results/layer_error.h"
#include "sim/results/paired_bootstrap.h"
#include "sim/results/result.h"

namespace kvsim {

/// What is compared: a number of `replay` outside the key, or the projected error of layers.
struct Metric {
  ColumnSchema declared;
  const Column* column = nullptr;  ///< of `replay`; none: a column of `layer_error`

  bool is_of_layers() const { return column == nullptr; }
};

/// Throws UsageError, which names the nearest one.
Metric metric_named(const std::string& name);

/// A row of one policy, and the number that is compared.
struct MeasuredRow {
  std::string trace_id;
  std::string sequence;
  std::int64_t layer = 0;
  std::int64_t kv_head = 0;  ///< 0 in rows of layers
  std::string policy;
  std::int64_t budget = 0;
  std::string mode;
  std::int64_t seed = 0;
  std::string budget_request;
  std::int64_t steps = 0;
  std::optional<double> value;
  std::string pairs_as = {};  ///< another mode, whose rows it makes pairs with; empty: its own

  const std::string& mode_of_pair() const { return pairs_as.empty() ? mode : pairs_as; }
};

std::vector<MeasuredRow> measured(const std::vector<Result>& rows, const Metric& metric);
/// The projected errors.
std::vector<MeasuredRow> measured(const std::vector<LayerErrorRow>& rows);

/// The difference of a metric between two policies, the first less the second, at one budget and
/// mode.
struct Difference {
  /// Tokens; the budget as requested if it is a size or units have it as several numbers of tokens.
  Value budget;
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

/// Units in prefill mode or at sampled steps that have pairs, but none asked for by the share that
/// was selected. Some may have as many tokens: rows do not hold the length of the prompt, nor,
/// where a sample of steps was measured, that of the text.
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
/// of the same unit, mode and seed, and of the same budget in tokens, or in bytes as requested. A
/// unit's value is the mean over its seeds. Of
/// a metric that is summed it counts as often as its sequence has units in pairs, so that the mean
/// over these is their sum. A layer counts as a unit.
///
/// There is a difference for every mode and budget as requested: a number of tokens stands for all
/// pairs at this budget. In stream mode a share stands for all pairs with that share of the steps;
/// in prefill mode and at sampled steps for those of which either row was asked for by this share,
/// however it was written (20%, 0.2). A size stands for those of which both rows were asked for by
/// it. `budget` selects one of them.
///
/// Throws UsageError if no pair is there, or if the metric is NULL in a row of a pair.
PairedComparison compare_rows(const std::vector<MeasuredRow>& first,
                              const std::vector<MeasuredRow>& second, const Metric& metric,
                              const std::optional<Amount>& budget);

}  // namespace kvsim
