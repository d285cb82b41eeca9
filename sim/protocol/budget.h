#pragma once

#include "sim/base/amount.h"
#include "sim/protocol/protocol.h"

namespace kvsim {

/// The tokens of a budget under a protocol, on a text of so many tokens.
inline int budget_of(const Amount& amount, const Protocol& protocol, int num_tokens,
                     int prompt_length) {
  return amount.of(protocol.base(num_tokens, prompt_length));
}

}  // namespace kvsim
