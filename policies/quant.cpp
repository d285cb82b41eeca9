// Keeps keys and values as small integers (FlexGen section 5, "Approximate methods"), which H2O
// (Table 6) and Scissorhands (Table 4) combine with eviction at four bits. FlexGen groups numbers
// across all heads of a layer; here a group stays within the vector of one head.

#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

void store_quantized(Rules& rules, const Params& params, const Context&) {
  rules.stored = Quantization{.bits = params.integer("bits"), .group = params.integer("group")};
}

}  // namespace

CombinatorInfo quant_combinator() {
  return {.name = "quant",
          .does = "keys and values are kept as integers of a few bits",
          .source = "FlexGen section 5; H2O Table 6, Scissorhands Table 4",
          .differences = "policies that look at keys or at full attention see them as recorded",
          .params = {Param::integer("bits", 4, 1, 8, "bits per number"),
                     Param::integer("group", 64, 1, 1'000'000,
                                    "numbers that share a least number and a step")},
          .change = store_quantized};
}

}  // namespace kvsim
