#include "sim/protocol/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/errors.h"

namespace kvsim {
namespace {

// One page for the newest token, which never leaves, and one that may.
constexpr int kLeastPages = 2;

}  // namespace

int budget_of(const Amount& amount, const Protocol& protocol, int num_tokens, int prompt_length) {
  const int whole = protocol.base(num_tokens, prompt_length);
  const int page = protocol.paging.size;
  if (protocol.paging.is_by_token() || !amount.is_share()) {
    const int budget = amount.of(whole);
    check_budget(protocol, budget);
    return budget;
  }
  const auto pages = static_cast<int>(std::floor(amount.value() * whole / page + 0.5));
  return std::max(kLeastPages, pages) * page;
}

void check_budget(const Protocol& protocol, int budget) {
  const Paging& paging = protocol.paging;
  const int least = kLeastPages * paging.size;
  if (paging.is_by_token() || (budget >= least && budget % paging.size == 0)) return;
  const int nearest = std::max(kLeastPages, budget / paging.size) * paging.size;
  throw UsageError(
      fmt::format("budget {}: expected a multiple of --page {} of at least {} tokens; use {}",
                  budget, paging.size, least, nearest));
}

int least_budget(const Protocol& protocol) {
  return protocol.paging.is_by_token() ? 1 : kLeastPages * protocol.paging.size;
}

std::vector<int> every_budget(const Protocol& protocol, int num_tokens) {
  const Paging& paging = protocol.paging;
  const int least = paging.is_by_token() ? 1 : kLeastPages;
  std::vector<int> budgets;
  for (int pages = least; pages <= std::max(least, paging.pages_for(num_tokens)); ++pages) {
    budgets.push_back(pages * paging.size);
  }
  return budgets;
}

}  // namespace kvsim
