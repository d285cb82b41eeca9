#pragma once

#include <string>
#include <vector>

#include "sim/base/amount.h"

namespace kvsim {

/// The budgets at which a curve has output errors: the value of --output-error.
class ErrorBudgets {
 public:
  /// "none", "all", "every:K" (each K-th budget and the last one), or budgets as a sweep takes
  /// them: "5%,10%,256", "5%..50%:5%". Throws UsageError, starting with `option`.
  ErrorBudgets(const std::string& text, const std::string& option);

  /// In tokens, ascending, at most `num_tokens`; shares are of `base` tokens.
  std::vector<int> of(int num_tokens, int base) const;

  const std::string& text() const { return text_; }  ///< as it was written

 private:
  std::string text_;
  int step_ = 0;  ///< K of "every:K"; 0: listed_ holds the budgets
  std::vector<Amount> listed_;
};

}  // namespace kvsim
