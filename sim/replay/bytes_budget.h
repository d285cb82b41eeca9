#pragma once

#include <cstddef>
#include <cstdint>

#include "policies/interface/store.h"
#include "policies/registry/spec.h"
#include "sim/base/amount.h"
#include "sim/protocol/protocol.h"

namespace kvsim {

/// The bytes of one KV head's cache that holds `budget` tokens as the policy stores them at this
/// budget: keys, values, codes and scales. Of an estimator, whose counters come on top: of `budget`
/// vectors, half of them keys. The entry of +rest counts as a token. `length`: of the text; 0: it
/// is not known. Throws UsageError for a store that keeps evicted tokens of a text of unknown
/// length.
std::size_t bytes_of_budget(const Spec& policy, const VectorShape& shape, int budget, int length);

/// The largest budget that takes at most so many bytes, of an estimator an even one. The policy's
/// rules are those at the budget itself; it is found by bisection, as more tokens take no fewer
/// bytes. Throws UsageError if none does, for more than 2147483647 tokens, and as
/// bytes_of_budget().
int budget_that_fits(const Spec& policy, const VectorShape& shape, const Amount& size, int length);

/// The budget that an amount is for a policy under a protocol: budget_of() of sim/protocol for
/// tokens and shares. A size is what fits into it, in whole pages where these leave; a store
/// counts as StoreKind::bytes() says, and its cache may take more (policies/stores.md).
/// `num_tokens`: of the text; 0: it is not known. Throws as both, and for a size of less than two
/// pages.
int budget_of(const Amount& amount, const Spec& policy, const VectorShape& shape,
              const Protocol& protocol, int num_tokens, int prompt_length);

}  // namespace kvsim
