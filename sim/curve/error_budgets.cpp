#include "sim/curve/error_budgets.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/parameters/split.h"
#include "sim/base/amount_list.h"
#include "sim/base/errors.h"

namespace kvsim {
namespace {

constexpr std::string_view kEvery = "every:";

void check_keeps_something(const Amount& amount, const std::string& option) {
  if (amount.value() > 0) return;
  throw UsageError(fmt::format("{}: '{}' keeps nothing; 1 is the least", option, amount.written()));
}

}  // namespace

ErrorBudgets::ErrorBudgets(const std::string& text, const std::string& option) : text_(text) {
  if (text == "none") return;
  if (text == "all") {
    step_ = 1;
  } else if (text.starts_with(kEvery)) {
    const Amount step = Amount::parse(text.substr(kEvery.size()), option);
    check_keeps_something(step, option);
    if (step.is_share()) {
      throw UsageError(
          fmt::format("{}: '{}' is not a number of tokens; write every:32", option, text));
    }
    step_ = step.of(1);
  } else {
    for (const std::string_view part : split(text, ',')) {
      if (part.empty()) {
        throw UsageError(fmt::format(
            "{}: '{}' has an empty entry; write none, all, every:32 or 5%,10%,256", option, text));
      }
      for (const Amount& amount : parse_amounts(part, option)) {
        check_keeps_something(amount, option);
        listed_.push_back(amount);
      }
    }
  }
}

std::vector<int> ErrorBudgets::of(int num_tokens, int base) const {
  std::vector<int> budgets;
  if (step_ > 0) {
    for (int budget = step_; budget < num_tokens; budget += std::min(step_, num_tokens - budget)) {
      budgets.push_back(budget);
    }
    budgets.push_back(num_tokens);
  }
  for (const Amount& amount : listed_) budgets.push_back(std::min(amount.of(base), num_tokens));
  std::sort(budgets.begin(), budgets.end());
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  return budgets;
}

}  // namespace kvsim
