#include "oracle/simulation.h"

#include <algorithm>
#include <limits>

#include "oracle/page_schedule.h"
#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

/// A rule for tokens, where the tokens are pages.
class PageRule final : public EvictionRule {
 public:
  PageRule(EvictionRule& rule, const PageSteps& pages) : rule_(rule), pages_(pages) {}

  void arrive(int page) override {
    while (arrived_ <= pages_.eviction_step(page)) rule_.arrive(arrived_++);
  }

  double loss(int page, int step) override {
    if (page == step) return std::numeric_limits<double>::infinity();  // it is not complete
    const int size = pages_.page_size();
    return rule_.loss_of_page(page * size, size, pages_.eviction_step(step));
  }

  void leave(int page) override {
    const int size = pages_.page_size();
    for (int token = page * size; token < (page + 1) * size; ++token) rule_.leave(token);
  }

 private:
  EvictionRule& rule_;
  const PageSteps& pages_;
  int arrived_ = 0;
};

}  // namespace

double EvictionRule::loss_of_page(int first, int count, int step) {
  double sum = 0;
  for (int token = first; token < first + count; ++token) sum += loss(token, step);
  return sum;
}

Schedule simulate(const EvictionSteps& steps, int budget, EvictionRule& rule) {
  if (!steps.protocol().paging.is_by_token()) {
    const PageSteps pages(steps);
    PageRule of_pages(rule, pages);
    const int budget_of_pages = budget / pages.page_size();
    return page_schedule(simulate(pages.steps(), budget_of_pages, of_pages), pages,
                         steps.num_tokens());
  }
  Schedule schedule(steps.num_tokens(), steps.num_tokens());
  const std::vector<int> evictions = steps.num_evictions(budget);
  std::vector<int> resident;
  for (int step = 0; step < steps.num_tokens(); ++step) {
    resident.push_back(step);
    rule.arrive(step);
    for (int count = evictions[step]; count > 0; --count) {
      poll_interrupt();
      auto victim = resident.begin();
      double least = rule.loss(*victim, step);
      for (auto token = victim + 1; token != resident.end(); ++token) {
        const double loss = rule.loss(*token, step);
        if (loss >= least) continue;
        least = loss;
        victim = token;
      }
      schedule[*victim] = step;
      rule.leave(*victim);
      resident.erase(victim);
    }
  }
  return schedule;
}

}  // namespace kvsim
