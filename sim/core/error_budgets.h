#pragma once

#include <string>
#include <vector>

#include "policies/amount.h"

namespace kvsim {

/// At which of all budgets a curve has output errors.
class ErrorBudgets {
 public:
  /// "none", "all", "every:K" (each K-th budget and the last one), or budgets as a sweep takes
  /// them: "5%,10%,256". Throws UsageError, starting with `option`.
  ErrorBudgets(const std::string& text, const std::string& option);

  /// In tokens, ascending, at most `num_tokens`; shares are of `base` tokens.
  std::vector<int> of(int num_tokens, int base) const;

 private:
  int step_ = 0;  ///< 0: those of the list
  std::vector<Amount> listed_;
};

}  // namespace kvsim
