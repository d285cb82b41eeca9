#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "sim/replay/replay.h"
#include "tests/oracle/small_attention.h"
#include "tests/support/units.h"

namespace kvsim::pages_test {

using namespace oracle_test;

constexpr double kRounding = 1e-5;  // costs are in single precision

/// The least loss over all ways to evict pages, tried one by one: after each step that holds more
/// than it may, complete pages leave, not the newest token's, until the budget holds.
struct PageSearch {
  const StepRows& losses;
  int budget;
  double best = std::numeric_limits<double>::infinity();

  int size() const { return losses.protocol().paging.size; }

  /// `kept`: the pages held during `step`, the one of `step` last.
  void run(int step, const std::vector<int>& kept, double loss) {
    if (loss >= best) return;
    if (step == losses.num_tokens()) {
      best = loss;
      return;
    }
    const double with_step = loss + missing(step, kept);
    const int held = (static_cast<int>(kept.size()) - 1) * size() + step % size() + 1;
    const bool may_evict = step >= losses.first_eviction();
    const bool evicts = may_evict && held > losses.most_held(budget, step);
    const int count = evicts ? (held - budget + size() - 1) / size() : 0;
    leave(step, kept, 0, count, with_step);
  }

  void leave(int step, const std::vector<int>& kept, std::size_t first, int count, double loss) {
    if (count == 0) {
      std::vector<int> next = kept;
      if ((step + 1) % size() == 0) next.push_back((step + 1) / size());
      return run(step + 1, next, loss);
    }
    for (std::size_t i = first; i + 1 < kept.size(); ++i) {  // the last is the newest token's
      std::vector<int> rest = kept;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      leave(step, rest, i, count - 1, loss);
    }
  }

  double missing(int step, const std::vector<int>& kept) const {
    if (step < losses.first_measured()) return 0;
    double sum = 0;
    for (int token = 0; token <= step; ++token) {
      const bool is_held = std::find(kept.begin(), kept.end(), token / size()) != kept.end();
      if (!is_held) sum += double{losses.row(step)[static_cast<std::size_t>(token)]};
    }
    return sum;
  }
};

double least_loss_of_pages(const StepRows& losses, int budget) {
  PageSearch search{losses, budget};
  search.run(0, {0}, 0);
  return search.best;
}

TEST_CASE("optimal loses as little as the best of all sequences of pages", "[optimal]") {
  const int page = GENERATE(2, 3);
  const int tokens = GENERATE(1, 9, 14);
  for (const int prompt : {0, 1, 4, 7, tokens - 1}) {
    for (const int interval : {1, 2, 4, kNeverEvict}) {
      if (prompt >= tokens || (prompt == 0 && interval == kNeverEvict)) continue;
      for (const std::uint64_t seed : {1U, 2U, 3U}) {
        const Protocol protocol{.mode = prompt == 0 ? Mode::stream : Mode::prefill,
                                .eviction_interval = interval,
                                .paging = {.size = page}};
        const FutureAttention attention(random_rows(tokens, seed), prompt, protocol);
        for (int budget = 2 * page; budget <= tokens + page; budget += page) {
          CAPTURE(page, tokens, prompt, interval, seed, budget);
          const Plan plan = plans("optimal", attention, {budget}).front();
          const double best = least_loss_of_pages(attention, budget);
          CHECK(lost(attention, plan.schedule) == Approx(best).margin(kRounding));
          for (const char* other : {"future", "belady", "h2o-global"}) {
            const Plan bounded = plans(other, attention, {budget}).front();
            CHECK(lost(attention, bounded.schedule) >= best - kRounding);
          }
        }
      }
    }
  }
}

TEST_CASE("future evicts the page with the least attention to come", "[pages]") {
  // Page 1 gets more in all, page 0 in its most attended token.
  Rows rows(7);
  for (int step = 0; step < 7; ++step) rows[static_cast<std::size_t>(step)].assign(step + 1, 0);
  rows[5] = {.4F, 0, .3F, .3F, 0, 0};
  const FutureAttention attention(rows, 0, {.paging = {.size = 2}});
  CHECK(plans("future", attention, {4})[0].schedule == Schedule{4, 4, 6, 6, 7, 7, 7});
}

TEST_CASE("belady evicts the page whose next access is farthest", "[pages]") {
  Rows rows(7);
  for (int step = 0; step < 7; ++step) rows[static_cast<std::size_t>(step)].assign(step + 1, 0);
  rows[5] = {0, .5F, 0, 0, 0, .5F};
  rows[6] = {0, 0, .6F, .4F, 0, 0, 0};
  const FutureAttention attention(rows, 0, {.paging = {.size = 2}});
  CHECK(plans("belady", attention, {4})[0].schedule == Schedule{6, 6, 4, 4, 7, 7, 7});
}

/// The optimum of heads that keep the same tokens, of their summed attention.
double least_loss_together(const std::vector<Unit>& units, const Protocol& protocol, int budget) {
  const auto backend = make_cpu_backend();
  StepRows sums(eviction_steps(units.front(), protocol));
  for (const Unit& unit : units) {
    const FutureAttention attention(unit, sums, *backend);
    for (int step = 0; step < sums.num_tokens(); ++step) {
      for (int token = 0; token <= step; ++token) {
        sums.row(step)[static_cast<std::size_t>(token)] +=
            attention.row(step)[static_cast<std::size_t>(token)];
      }
    }
  }
  if (protocol.paging.size > 1) return least_loss_of_pages(sums, budget);
  return least_loss(sums, [&](int) { return budget; });
}

TEST_CASE("optimal+shared loses the least of all heads together", "[optimal]") {
  const int page = GENERATE(1, 2);
  const int prompt = GENERATE(0, 3);
  const Protocol protocol{.mode = prompt == 0 ? Mode::stream : Mode::prefill,
                          .paging = {.size = page}};
  for (const std::uint64_t seed : {5U, 6U}) {
    std::vector<Unit> units =
        test_support::random_units({.tokens = 9, .group = 2, .prompt_length = prompt}, seed);
    units.resize(2);  // one layer
    const auto outcomes =
        replay_together(units, {{Spec("optimal+shared"), 4}, {Spec("h2o+shared"), 4}},
                        {.protocol = protocol, .trajectories = true}, *make_cpu_backend());
    const double steps = 9 - prompt;
    const auto loss_of = [&](const std::vector<Outcome>& layer) {
      return (*layer[0].result.attention_loss + *layer[1].result.attention_loss) * steps;
    };
    CHECK(outcomes[0][0].trajectory.evicted_after == outcomes[0][1].trajectory.evicted_after);
    const double best = least_loss_together(units, protocol, 4);
    CHECK(loss_of(outcomes[0]) == Approx(best).margin(1e-5));
    CHECK(loss_of(outcomes[1]) >= best - 1e-5);
    CHECK_FALSE(outcomes[0][0].proof);  // a proof is of one unit
  }
}

}  // namespace kvsim::pages_test
