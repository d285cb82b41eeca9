#include "tests/oracle/small_attention.h"

#include <limits>

#include "policies/registry/spec.h"
#include "tests/support/units.h"

namespace kvsim::oracle_test {
using test_support::uniform_unit;

namespace {

struct Search {
  const StepRows& attention;
  const std::function<int(int)>& capacity;
  int recent;
  double best = std::numeric_limits<double>::infinity();

  // `resident` is what is there during `step`, before anything leaves.
  void evict(int step, std::vector<int> resident, std::size_t first, double loss) {
    if (loss >= best) return;
    if (step < attention.first_eviction() || static_cast<int>(resident.size()) <= capacity(step)) {
      if (step + 1 == attention.num_tokens()) {
        best = loss;
        return;
      }
      resident.push_back(step + 1);
      evict(step + 1, resident, 0, loss + missing(step + 1, resident));
      return;
    }
    for (std::size_t i = first; i < resident.size(); ++i) {
      if (resident[i] > step - recent) break;
      std::vector<int> rest = resident;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      evict(step, rest, i, loss);
    }
  }

  double missing(int step, const std::vector<int>& resident) const {
    if (step < attention.first_measured()) return 0;
    double sum = 0;
    for (const float share : attention.row(step)) sum += double{share};
    for (const int token : resident) {
      sum -= double{attention.row(step)[static_cast<std::size_t>(token)]};
    }
    return sum;
  }
};

}  // namespace

std::vector<Plan> plans(const std::string& spec, const FutureAttention& attention,
                        const std::vector<int>& budgets) {
  const Spec oracle(spec);
  const Unit unit = uniform_unit({.tokens = attention.num_tokens()});
  const auto backend = make_cpu_backend();
  const Future future(unit, attention, *backend);
  const auto planner = oracle.policy().make_planner(oracle.params());
  return planner->plan({&future, 1}, {&budgets, 1}).front();
}

double least_loss(const StepRows& attention, const std::function<int(int)>& capacity, int recent) {
  Search search{attention, capacity, recent};
  search.evict(0, {0}, 0, 0);
  return search.best;
}

}  // namespace kvsim::oracle_test
