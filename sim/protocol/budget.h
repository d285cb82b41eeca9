#pragma once

#include "sim/base/amount.h"
#include "sim/protocol/protocol.h"

namespace kvsim {

/// The tokens of a budget under a protocol, on a text of so many tokens: of a share, the nearest
/// number that the protocol allows, halves upwards. Throws as check_budget().
int budget_of(const Amount& amount, const Protocol& protocol, int num_tokens, int prompt_length);

/// Throws UsageError unless a cache of pages can have this budget: a multiple of the page, of at
/// least two pages.
void check_budget(const Protocol& protocol, int budget);

}  // namespace kvsim
