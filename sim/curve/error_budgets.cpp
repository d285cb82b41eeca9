#include "sim/curve/error_budgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "policies/parameters/split.h"
#include "sim/base/amount_list.h"
#include "sim/base/errors.h"
#include "sim/protocol/budget.h"

namespace kvsim {
namespace {

constexpr std::string_view kEvery = "every:";

void check_keeps_something(const Amount& amount, const std::string& option) {
  if (amount.value() > 0) return;
  throw UsageError(fmt::format("{}: '{}' keeps nothing; 1 is the least", option, amount.written()));
}

}  // namespace

ErrorBudgets::ErrorBudgets(const std::string& text, const std::string& option)
    : text_(text), option_(option) {
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

void ErrorBudgets::check(const Protocol& protocol) const {
  const int page = protocol.paging.size;
  if (step_ > 1 && step_ % page != 0) {
    throw UsageError(fmt::format("{}: 'every:{}' steps over parts of pages; use every:{}", option_,
                                 step_, protocol.paging.pages_for(step_) * page));
  }
  try {
    for (const Amount& amount : listed_) {
      if (!amount.is_share()) check_budget(protocol, amount.of(1));
    }
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", option_, error.what()));
  }
}

std::vector<int> ErrorBudgets::of(const Protocol& protocol, int num_tokens,
                                  int prompt_length) const {
  check(protocol);
  const std::vector<int> every = every_budget(protocol, num_tokens);
  std::vector<int> budgets;
  if (step_ > 0) {
    std::copy_if(every.begin(), every.end(), std::back_inserter(budgets), [&](int budget) {
      return step_ == 1 || budget % step_ == 0 || budget == every.back();
    });
  }
  for (const Amount& amount : listed_) {
    budgets.push_back(
        std::min(budget_of(amount, protocol, num_tokens, prompt_length), every.back()));
  }
  std::sort(budgets.begin(), budgets.end());
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  return budgets;
}

}  // namespace kvsim
