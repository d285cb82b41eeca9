#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "sim/protocol/paging.h"

namespace kvsim::test_support {

/// Whether two scores are equal in the single precision in which policies see attention.
bool indistinguishable(double a, double b);

/// Which pages of a cache leave, written from the definition.
struct PageChoice {
  Paging paging;
  int budget;
  int drop;                          ///< tokens that the policy evicts at once
  int protected_first;               ///< of the text
  std::set<int> attended;            ///< all tokens held
  std::set<int> unprotected;         ///< of these, those that the policy's rules allow to leave
  std::map<int, double> score = {};  ///< empty: follows `other` in every choice

  /// The tokens that leave after step `t`: a page leaves when all its tokens would, and as many as
  /// leave the budget. Where single precision cannot tell scores apart, those that left then in
  /// `other`, and `followed` counts.
  std::vector<int> leaving(int t, const std::vector<std::int32_t>& other, int& followed);

 private:
  int page_of(int token) const { return token / paging.size; }
  std::vector<int> candidates(int t) const;
  int choose(const std::vector<int>& pages, int others, int& followed) const;
  double score_of(int page) const;
};

}  // namespace kvsim::test_support
