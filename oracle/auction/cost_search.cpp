#include "oracle/auction/cost_search.h"

#include <limits>

#include "sim/kernels/candidate_kernels.h"

namespace kvsim {
namespace {

// Where more than this share of a row is found, the whole row takes less time than so many tokens.
constexpr std::size_t kWholeRow = 6;

}  // namespace

CostSearch::CostSearch(const Takers& takers)
    : takers_(takers), tokens_(takers.num_tokens()), sums_(takers.num_tokens()) {
  if (takers.compact() == nullptr) return;
  row_.emplace(*takers.compact());
  some_costs_.resize(takers.num_tokens());
}

std::size_t CostSearch::find(int taker, const float* price, float limit, const KnownCosts& known) {
  const std::size_t size = takers_.num_choices(taker);
  const int step = takers_.step(taker);
  if (takers_.has_costs(taker)) {
    costs_ = takers_.costs(taker).data();
    return find_at_most({costs_, size}, price, limit, tokens_.data(), sums_.data());
  }
  std::size_t found = size;
  if (limit < std::numeric_limits<float>::infinity()) {
    found = find_at_most({takers_.compact()->below(step), size}, price, limit, tokens_.data());
  }
  if (found > size / kWholeRow) {
    costs_ = row_->at(step).data();
    return find_at_most({costs_, size}, price, limit, tokens_.data(), sums_.data());
  }
  find_costs(step, found, known);
  costs_ = some_costs_.data();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < found; ++i) {
    const std::int32_t token = tokens_[i];
    const float sum = costs_[token] + price[token];
    if (sum > limit) continue;
    tokens_[kept] = token;
    sums_[kept++] = sum;
  }
  return kept;
}

void CostSearch::find_costs(int step, std::size_t found, const KnownCosts& known) {
  unknown_.clear();
  std::size_t next = 0;
  for (std::size_t i = 0; i < found; ++i) {
    const std::int32_t token = tokens_[i];
    while (next < known.tokens.size() && known.tokens[next] < token) ++next;
    if (next < known.tokens.size() && known.tokens[next] == token) {
      some_costs_[token] = known.costs[next];
    } else {
      unknown_.push_back(token);
    }
  }
  takers_.compact()->at(step, unknown_, sums_.data());
  for (std::size_t i = 0; i < unknown_.size(); ++i) some_costs_[unknown_[i]] = sums_[i];
}

}  // namespace kvsim
