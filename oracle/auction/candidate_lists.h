#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "oracle/auction/assignment.h"
#include "oracle/auction/bidders.h"
#include "oracle/auction/lowest_values.h"

namespace kvsim {

/// The two tokens that a bidder values most among those that it does not have. A token's value is
/// its cost plus its price; the less, the better.
struct Offer {
  int token = -1;
  double value = 0;
  double next_value = 0;  ///< of the second token
};

/// Per bidder of few units, the tokens with the lowest values, so that few rows of costs are read.
/// A wide list holds all tokens that were below a limit when it was filled, a narrow one the lowest
/// of these. Prices only rise, so what is in no list stays above the limit. Takes about 1.4 kB per
/// bidder.
class CandidateLists {
 public:
  /// Both have to outlive the object.
  CandidateLists(const Bidders& bidders, const Assignment& assignment);

  /// Bidders of many units get no lists: their own tokens would fill them.
  bool has_list(int bidder) const { return bidders_.has_few_units(bidder); }

  /// The best token and the second value, which may be up to `tolerance` too high.
  Offer best_two(int bidder, double tolerance);

  /// Calls `visit(token, cost, value)` for tokens that the bidder does not have and whose value is
  /// below `limit`, until it returns false. A visit may raise the price of its token.
  template <class Visit>
  void visit_below(int bidder, double limit, const Visit& visit);

  /// Has to be called when the bidder loses a token, after its price has risen.
  void lost(int bidder, int token);

 private:
  static constexpr std::size_t kWide = 160;
  static constexpr std::size_t kNarrow = kMostLowest;
  static_assert(kWide % kValuesTogether == 0);

  struct Candidate {
    float least;  ///< its value is at least this
    float cost;
    std::int32_t token;
  };

  struct List {
    float wide_limit = 0;  ///< sums of floats that the wide list lacks are above it, or equal
    float limit = 0;       ///< values that the narrow list lacks are above it, or equal
    std::int32_t wide_size = 0;
    std::int32_t size = 0;
  };

  Candidate* narrow(int bidder) { return &narrow_[static_cast<std::size_t>(bidder) * kNarrow]; }
  std::int32_t* wide_tokens(int bidder) {
    return &wide_tokens_[static_cast<std::size_t>(bidder) * kWide];
  }
  float* wide_costs(int bidder) { return &wide_costs_[static_cast<std::size_t>(bidder) * kWide]; }
  double value(const Candidate& candidate) const {
    return double{candidate.cost} + assignment_.price(candidate.token);
  }
  /// Beside those that the bidder may have itself, enough to fill a narrow list twice.
  std::size_t least_wide(int bidder) const {
    return static_cast<std::size_t>(bidders_.units(bidder)) + 2 * kNarrow;
  }
  /// A limit that some hundred values of the row do not exceed, from the present list.
  float likely_limit(int bidder);
  /// Searches the bidder's row: found_tokens_ and found_sums_ of values that are at most `limit`,
  /// in the order of the row. Returns their number.
  std::size_t find_below(int bidder, float limit);
  void fill_wide(int bidder);
  void fill_narrow(int bidder);

  const Bidders& bidders_;
  const Assignment& assignment_;
  std::vector<List> lists_;
  std::vector<Candidate> narrow_;
  std::vector<std::int32_t> wide_tokens_;
  std::vector<float> wide_costs_;
  std::vector<std::int32_t> found_tokens_;
  std::vector<float> found_sums_;
  std::array<std::int32_t, kNarrow> places_;  // of one wide list
  std::array<float, kWide> sums_;
};

template <class Visit>
void CandidateLists::visit_below(int bidder, double limit, const Visit& visit) {
  if (limit > lists_[bidder].limit) fill_narrow(bidder);
  if (limit <= lists_[bidder].limit) {
    for (int i = 0; i < lists_[bidder].size; ++i) {
      const Candidate candidate = narrow(bidder)[i];
      if (candidate.least >= limit) return;
      if (assignment_.bidder_of(candidate.token) == bidder) continue;
      const double of_token = value(candidate);
      if (of_token < limit && !visit(candidate.token, candidate.cost, of_token)) return;
    }
    return;
  }
  // No float is above the nearest float of `limit` and below `limit`.
  const std::size_t found = find_below(bidder, static_cast<float>(limit));
  for (std::size_t i = 0; i < found; ++i) {
    if (found_sums_[i] >= limit) continue;
    const std::int32_t token = found_tokens_[i];
    if (assignment_.bidder_of(token) == bidder) continue;
    const float cost = bidders_.cost(bidder, token);
    const double of_token = double{cost} + assignment_.price(token);
    if (of_token < limit && !visit(token, cost, of_token)) return;
  }
  fill_wide(bidder);
  fill_narrow(bidder);
}

}  // namespace kvsim
