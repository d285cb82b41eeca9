#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/base/amount.h"
#include "sim/results/paired_comparison.h"

namespace kvsim {

/// Trace, sequence, layer and KV head of a row.
using UnitKey = std::tuple<std::string, std::string, std::int64_t, std::int64_t>;
UnitKey unit_of(const MeasuredRow& row);

/// The budget of a row as requested.
Amount request_of(const MeasuredRow& row);

/// Whether a row has the length of which a share is. A share is of the text in stream mode, of the
/// prompt in prefill mode. Rows do not have the length of the prompt, nor, where a sample of steps
/// was measured, that of the text: their request decides.
bool has_length(const MeasuredRow& row);

/// Whether a row is at a budget: has as many tokens, or was asked for by this share or size,
/// however it was written.
bool is_at(const MeasuredRow& row, const Amount& budget);

/// Two rows that are compared.
struct RowPair {
  const MeasuredRow* first;
  const MeasuredRow* second;

  bool is_at(const Amount& budget) const {
    return kvsim::is_at(*first, budget) || kvsim::is_at(*second, budget);
  }

  bool operator<(const RowPair& other) const {
    return std::tie(first, second) < std::tie(other.first, other.second);
  }
};

/// The pairs of one kind, by mode. Their order does not depend on that of the rows.
using PairsOfModes = std::map<std::string, std::vector<RowPair>>;

/// The pairs of the rows of two policies, which refer to them.
struct RowPairs {
  PairsOfModes of_tokens;  ///< of as many tokens
  /// Of the same size as requested, which is other tokens where the two store them otherwise.
  PairsOfModes of_sizes;

  /// The pairs among which those at a budget are.
  const PairsOfModes& for_budget(const Amount& budget) const {
    return budget.is_bytes() ? of_sizes : of_tokens;
  }
};

/// Two rows make a pair if they are of the same unit, mode (MeasuredRow::mode_of_pair()) and seed,
/// and of as many tokens or of the same size as requested.
RowPairs pairs_of(const std::vector<MeasuredRow>& first, const std::vector<MeasuredRow>& second);

}  // namespace kvsim
