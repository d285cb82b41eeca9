#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "policies/learned/scorer.h"
#include "policies/learned/slot_rows.h"

namespace kvsim {

/// One scorer of a file, applied to the tokens of a cache. What it makes of the features that are
/// fixed when a token arrives is computed then, and kept per slot.
class TokenScorer {
 public:
  explicit TokenScorer(std::size_t num_rows) : rows_(num_rows) {}
  virtual ~TokenScorer() = default;

  /// Slots that have left the cache, ascending.
  void remove(std::span<const std::size_t> slots) { rows_.remove(slots); }

  /// The fixed features of the token that has just arrived.
  virtual void add(std::span<const float> fixed) = 0;

  /// Writes the score of each slot from the columns of the other features.
  virtual void score(const std::vector<std::vector<float>>& changing, std::span<double> scores) = 0;

 protected:
  SlotRows<float> rows_;
};

/// The scorer number `index` of a file.
std::unique_ptr<TokenScorer> make_token_scorer(const Scorer& scorer, std::size_t index);

/// The floats per slot that it keeps.
std::size_t floats_per_token(const Scorer& scorer);

}  // namespace kvsim
