#include "sim/replay/bytes_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/base/errors.h"
#include "sim/protocol/budget.h"
#include "sim/replay/estimator_steps.h"

namespace kvsim {
namespace {

// A token of an estimator's budget is two vectors: its key and its value.
int entries_per_token(const Spec& policy) { return policy.is_estimator() ? 2 : 1; }

std::string what_a_token_is(const Spec& policy) {
  if (policy.is_estimator()) return "a token, which is two vectors of its budget,";
  const bool keeps_all = rules_at(policy, 1).keeps_evicted();
  return keeps_all ? "a token, and for all others at few bits," : "a token";
}

}  // namespace

std::size_t bytes_of_budget(const Spec& policy, const VectorShape& shape, int budget, int length) {
  const Rules rules = rules_at(policy, budget);
  const int tokens = budget / entries_per_token(policy);
  if (rules.store) {
    if (length == 0 && rules.store->keeps_evicted()) {
      throw UsageError(
          fmt::format("{}: it keeps evicted tokens in another form, so a budget in bytes depends "
                      "on the length of the text, which is not known; give tokens",
                      policy.text()));
    }
    return rules.store->bytes(shape, tokens, std::max(length, tokens));
  }
  std::size_t per_token = shape.bytes();
  if (rules.stored) {
    per_token = rules.stored->bytes(static_cast<std::size_t>(shape.head_dim), shape.key_bytes) +
                rules.stored->bytes(static_cast<std::size_t>(shape.value_dim), shape.value_bytes);
  }
  return static_cast<std::size_t>(tokens) * per_token;
}

int budget_that_fits(const Spec& policy, const VectorShape& shape, const Amount& size, int length) {
  if (const Rules rules = rules_at(policy, 1); !rules.bounded && rules.prunes) {
    throw UsageError(fmt::format("budget {}: {} has no budget that a size could be; give tokens",
                                 size.written(), policy.text()));
  }
  const int entries = entries_per_token(policy);
  const std::int64_t most = std::numeric_limits<int>::max() / entries;
  const auto bytes_of = [&](std::int64_t tokens) {
    return static_cast<std::int64_t>(
        bytes_of_budget(policy, shape, static_cast<int>(tokens) * entries, length));
  };
  std::int64_t fits = 0;
  std::int64_t exceeds = 1;
  while (bytes_of(exceeds) <= size.bytes()) {
    if (exceeds == most) {
      throw UsageError(fmt::format("budget {}: expected at most {} tokens of {}, found more",
                                   size.written(), most, policy.text()));
    }
    fits = exceeds;
    exceeds = std::min(2 * exceeds, most);
  }
  if (fits == 0) {
    throw UsageError(fmt::format(
        "budget {}: expected room for {} of {}, which takes {} bytes per KV head; use {}B or more",
        size.written(), what_a_token_is(policy), policy.text(), bytes_of(1), bytes_of(1)));
  }
  while (exceeds - fits > 1) {
    const std::int64_t middle = fits + (exceeds - fits) / 2;
    (bytes_of(middle) <= size.bytes() ? fits : exceeds) = middle;
  }
  return static_cast<int>(fits) * entries;
}

int budget_of(const Amount& amount, const Spec& policy, const VectorShape& shape,
              const Protocol& protocol, int num_tokens, int prompt_length) {
  if (!amount.is_bytes()) return budget_of(amount, protocol, num_tokens, prompt_length);
  const int budget = budget_that_fits(policy, shape, amount, num_tokens);
  const int page = protocol.paging.size;
  if (protocol.paging.is_by_token()) return budget;
  const int least = least_budget(protocol);
  if (budget < least) {
    throw UsageError(fmt::format(
        "budget {}: expected two pages of --page {} at least, found room for {} tokens of {}; use "
        "{}B or more",
        amount.written(), page, budget, policy.text(),
        bytes_of_budget(policy, shape, least, num_tokens)));
  }
  return budget / page * page;
}

}  // namespace kvsim
