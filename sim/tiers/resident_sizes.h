#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/base/amount.h"
#include "sim/tiers/selectors.h"

namespace kvsim {

/// How much the device holds of a KV head.
struct ResidentSize {
  int tokens = 0;       ///< a multiple of the page, that of the step included
  std::string request;  ///< as the user wrote it; empty: nobody did

  /// The pages of them that are left for older ones.
  int places(int page) const { return tokens / page - 1; }
};

/// The sizes of all lists, separated by commas, ranges with a step among them: "5%..50%:5%,256".
/// Throws UsageError, starting with "--resident".
std::vector<Amount> parse_residents(std::span<const std::string> lists);

/// Throws UsageError for a number of tokens that is no multiple of the selector's page or, if the
/// number of pages that it chooses is fixed, too few for a step.
void check_resident(const Amount& amount, const SelectorSpec& selector);

/// The sizes, ascending, on a unit whose steps attend to at most `attended` older tokens. A share
/// is of `base` tokens, rounded to the nearest multiple of the page that is enough for a step,
/// halves upwards. Amounts that come to the same are there once. `unit` is for messages. Throws
/// UsageError, which names the least size, for a number of tokens that is too small.
std::vector<ResidentSize> resident_sizes(const std::vector<Amount>& amounts,
                                         const SelectorSpec& selector, int attended, int base,
                                         const std::string& unit);

/// Every size from the least that is enough for a step to that at which nothing leaves a text of
/// `num_tokens`; the least alone if that is larger.
std::vector<ResidentSize> all_resident_sizes(int page, int attended, int num_tokens);

}  // namespace kvsim
