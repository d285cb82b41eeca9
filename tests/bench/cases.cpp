#include "tests/bench/cases.h"

#include <algorithm>

#include "sim/attention/attention_blocks.h"
#include "sim/base/amount.h"
#include "sim/curve/curve.h"

namespace kvsim::bench {
namespace {

struct Row {
  const char* id;
  const char* title;
  const char* policies;
  std::vector<const char*> budgets;
};

const std::vector<const char*> kTenBudgets = {"1%",  "2%",  "5%",  "10%", "20%",
                                              "30%", "40%", "50%", "60%", "80%"};

const std::vector<Row> kReplays = {
    {"h2o", "H2O at 20%", "h2o", {"20%"}},
    {"h2o_budgets", "H2O at 10 budgets", "h2o", kTenBudgets},
    {"policies_budgets", "4 policies at 10 budgets", "h2o;tova;h2o:score=full;sink", kTenBudgets},
};

std::vector<Configuration> configurations_of(const Row& row, int num_tokens) {
  std::vector<Configuration> configurations;
  for (const Spec& policy : parse_specs(row.policies)) {
    for (const char* budget : row.budgets) {
      configurations.push_back({policy, Amount::parse(budget, "budget").of(num_tokens)});
    }
  }
  return configurations;
}

Case replay_case(const Row& row, int num_tokens, const Backend& backend) {
  const auto configurations = configurations_of(row, num_tokens);
  return {row.id, row.title, configurations, [configurations, &backend](const Unit& unit) {
            return replay(unit, configurations, {}, backend);
          }};
}

Case exact_case(const Backend& backend) {
  return {"exact", "exact attention alone", {}, [&backend](const Unit& unit) {
            for_each_block(unit, unit.num_tokens(), backend, [](const AttentionBlock&) {});
            return std::vector<Outcome>();
          }};
}

// H2O's curve; `num_errors` of its budgets, evenly spaced, with output errors.
Case curve_case(const char* id, const char* title, int num_tokens, int num_errors,
                const Backend& backend) {
  const std::vector<Spec> policies = {Spec("h2o:recent=16,score=full")};
  CurveOptions options;
  for (int i = 1; i <= num_errors; ++i) {
    options.error_budgets.push_back(std::max(i, num_tokens * i / num_errors));
  }
  return {id, title, {}, [policies, options, &backend](const Unit& unit) {
            curves_of(unit, policies, options, backend);
            return std::vector<Outcome>();
          }};
}

}  // namespace

std::vector<Case> all_cases(int num_tokens, const Backend& backend) {
  std::vector<Case> cases = {exact_case(backend)};
  for (const Row& row : kReplays) cases.push_back(replay_case(row, num_tokens, backend));
  const auto add_curve = [&](const char* id, const char* title, int num_errors) {
    cases.push_back(curve_case(id, title, num_tokens, std::min(num_errors, num_tokens), backend));
  };
  add_curve("curve", "curve, recall and misses", 0);
  add_curve("curve_errors_64", "curve, errors at 64 budgets", 64);
  add_curve("curve_errors", "curve, errors at all budgets", num_tokens);
  return cases;
}

double Case::flops(int num_tokens, int head_dim) const {
  double sum = 2 * pair_flops(num_tokens, num_tokens, head_dim);
  for (const Configuration& configuration : configurations) {
    sum += pair_flops(num_tokens, configuration.budget, head_dim);
  }
  return sum;
}

double pair_flops(int num_tokens, int most_visible, int head_dim) {
  const double growing = std::min(num_tokens, most_visible);
  const double pairs = growing * (growing + 1) / 2 + (num_tokens - growing) * growing;
  return 2 * pairs * head_dim;
}

}  // namespace kvsim::bench
