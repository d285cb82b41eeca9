#pragma once

#include <vector>

#include "sim/base/amount.h"
#include "sim/protocol/protocol.h"

namespace kvsim {

/// The tokens of a budget under a protocol, on a text of so many tokens: of a share, the nearest
/// number that the protocol allows, halves upwards. Throws as check_budget(), and for a size, whose
/// tokens depend on the policy (sim/replay/bytes_budget.h).
int budget_of(const Amount& amount, const Protocol& protocol, int num_tokens, int prompt_length);

/// Throws UsageError unless a cache of pages can have this budget: a multiple of the page, of at
/// least two pages.
void check_budget(const Protocol& protocol, int budget);

/// The least budget: one token, or two pages.
int least_budget(const Protocol& protocol);

/// The budgets that a text of so many tokens can have, ascending: 1 .. num_tokens; of pages, the
/// multiples of the page from two pages on, up to the least that holds the text.
std::vector<int> every_budget(const Protocol& protocol, int num_tokens);

}  // namespace kvsim
