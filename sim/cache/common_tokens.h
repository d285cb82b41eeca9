#pragma once

#include <span>
#include <vector>

#include "sim/cache/token_set.h"

namespace kvsim {

/// Tokens that two sets had in common; see take_common_tokens().
struct CommonTokens {
  int first;
  int second;  ///< above `first`
  TokenSet tokens;
};

/// Moves the tokens below `num_tokens` that two of `sets` share out of both, the largest shares
/// first, so that what is summed over several sets is summed once. A token leaves a set once;
/// shares of fewer than `fewest` tokens stay.
std::vector<CommonTokens> take_common_tokens(std::span<TokenSet> sets, int fewest, int num_tokens);

}  // namespace kvsim
