#pragma once

#include <string>
#include <vector>

#include "sim/base/amount.h"
#include "sim/protocol/protocol.h"

namespace kvsim {

/// The budgets at which a curve has output errors: the value of --output-error.
class ErrorBudgets {
 public:
  /// "none", "all", "every:K" (each K-th budget and the last one), or budgets as a sweep takes
  /// them: "5%,10%,256", "5%..50%:5%". Throws UsageError, starting with `option`.
  ErrorBudgets(const std::string& text, const std::string& option);

  /// Throws UsageError if caches of pages cannot have one of these budgets.
  void check(const Protocol& protocol) const;

  /// In tokens, ascending, each of every_budget(): larger ones count as the last of them. Shares
  /// are of what the protocol says. Throws as check().
  std::vector<int> of(const Protocol& protocol, int num_tokens, int prompt_length) const;

  const std::string& text() const { return text_; }  ///< as it was written

 private:
  std::string text_;
  std::string option_;
  int step_ = 0;  ///< K of "every:K"; 0: listed_ holds the budgets
  std::vector<Amount> listed_;
};

}  // namespace kvsim
