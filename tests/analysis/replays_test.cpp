// Analyses that look at replays, against their definitions on the whole attention matrix.

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "oracle/oracles.h"
#include "tests/analysis/analysed.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::replays_test {

using test_support::random_unit;
using test_support::ReferenceAttention;

bool is_attended(const PolicyRun& run, int token, int step) {
  return token <= step && run.trajectory.evicted_after[token] >= step;
}

std::set<int> kept_after(const PolicyRun& run, int step) {
  std::set<int> kept;
  for (int j = 0; j <= step; ++j) {
    if (run.trajectory.evicted_after[j] > step) kept.insert(j);
  }
  return kept;
}

TEST_CASE("score-change: bins hold (p - a) / a of every visible entry", "[analysis]") {
  Unit unit = random_unit({.tokens = 40, .group = 2, .prompt_length = 12}, 3);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  if (GENERATE(false, true)) unit.sliding_window = 9;
  if (GENERATE(false, true)) unit.sink_logit = {0.F, 4.F};
  const PolicyRun run = run_of("h2o", 8, unit, mode);
  const int first = mode == Mode::prefill ? 12 : 0;
  const std::vector<Row> rows = analyse("score-change:bins=4", unit, {run}, mode);
  REQUIRE(rows.size() == 2 * 6);
  for (int head = 0; head < 2; ++head) {
    const ReferenceAttention reference(unit, head);
    std::vector<std::int64_t> entries(6, 0);
    std::vector<double> attention(6, 0);
    for (int t = first; t < 40; ++t) {
      double sum = 1;  // what the cache has, a sink included
      for (int j = 0; j <= t; ++j) {
        if (!is_attended(run, j, t)) sum -= reference.full[t][j];
      }
      for (int j = 0; j <= t; ++j) {
        const double a = reference.full[t][j];
        if (a == 0) continue;
        const double p = is_attended(run, j, t) ? a / sum : 0;
        const double change = (p - a) / a;
        const int bin = p == 0 ? 0 : 1 + std::clamp(static_cast<int>(change * 4), 0, 4);
        ++entries[bin];
        attention[bin] += a;
      }
    }
    for (int bin = 0; bin < 6; ++bin) {
      const Row& row = rows[6 * head + bin];
      CHECK(row.head == head);
      CHECK(row.integer("bin") == bin);
      CHECK(row.integer("entries") == entries[bin]);
      CHECK(row.real("attention") == Approx(attention[bin]).epsilon(1e-5).margin(1e-9));
    }
    // What is missing is what recall lost.
    double lost = 0;
    for (int t = first; t < 40; ++t) lost += 1 - run.trajectory.attention_recall(head, t - first);
    CHECK(rows[6 * head].real("attention") == Approx(lost).epsilon(1e-4).margin(1e-5));
  }
}

TEST_CASE("evictions: age, attention had and attention lost are those of the matrix",
          "[analysis]") {
  const Unit unit = random_unit({.tokens = 36, .group = 2}, 11);
  const PolicyRun run = run_of(GENERATE("tova", "scissorhands:drop=0.5,recent=2"), 7, unit);
  const std::vector<Row> rows = analyse("evictions", unit, {run});
  const auto left = std::count_if(run.trajectory.evicted_after.begin(),
                                  run.trajectory.evicted_after.end(), [](int t) { return t < 36; });
  REQUIRE(rows.size() == 2 * static_cast<std::size_t>(left));
  for (int head = 0; head < 2; ++head) {
    const ReferenceAttention reference(unit, head);
    const auto mass = [&](int token, int first, int last) {
      double sum = 0;
      for (int t = std::max(first, token); t <= last; ++t) sum += reference.full[t][token];
      return sum;
    };
    double lost = 0;
    for (const Row& row : rows) {
      if (row.head != head) continue;
      const auto token = static_cast<int>(row.integer("token"));
      const auto step = static_cast<int>(row.integer("evicted_after"));
      CHECK(step == run.trajectory.evicted_after[token]);
      CHECK(row.integer("age") == step - token);
      CHECK(row.real("received") == Approx(mass(token, 0, step)).epsilon(1e-5));
      CHECK(row.real("future_mass") == Approx(mass(token, step + 1, 35)).margin(1e-5));
      double cheapest = 1e9;
      for (const int j : kept_after(run, step)) {
        cheapest = std::min(cheapest, mass(j, step + 1, 35));
      }
      CHECK(row.real("regret") ==
            Approx(std::max(0.0, mass(token, step + 1, 35) - cheapest)).margin(1e-5));
      lost += row.real("future_mass");
    }
    // Every step's loss is on tokens that were evicted before.
    double total = 0;
    for (int t = 0; t < 36; ++t) total += 1 - run.trajectory.attention_recall(head, t);
    CHECK(lost == Approx(total).epsilon(1e-4));
  }
}

TEST_CASE("anatomy: the oracle that evicts the least mass to come regrets nothing", "[analysis]") {
  add_oracles();
  const Unit unit = random_unit({.tokens = 50}, 5);
  const Row future = analyse("anatomy", unit, {run_of("future", 10, unit)}).at(0);
  CHECK(future.integer("evictions") == 40);
  CHECK(future.real("regret_mean") == Approx(0).margin(1e-6));
  const Row window = analyse("anatomy", unit, {run_of("window", 10, unit)}).at(0);
  CHECK(window.real("regret_mean") > 0.1);
  CHECK(window.real("age_mean") == 10);
  CHECK(window.real("age_p10") == 10);
  CHECK(window.real("best_share") < 1);
  const Row full = analyse("anatomy", unit, {run_of("full", 10, unit)}).at(0);
  CHECK(full.integer("evictions") == 0);
  CHECK(full.is_null("age_mean"));
}

TEST_CASE("overlap: the mean Jaccard index of the kept sets, interval by interval", "[analysis]") {
  const Unit unit = random_unit({.tokens = 41, .group = 2, .prompt_length = 20}, 9);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const std::vector<PolicyRun> runs{run_of("h2o", 8, unit, mode), run_of("window", 8, unit, mode),
                                    run_of("window", 9, unit, mode)};
  const std::vector<Row> rows = analyse("overlap:intervals=3", unit, runs, mode);
  REQUIRE(rows.size() == 2 * 3);  // only two have the same budget
  const int first = mode == Mode::prefill ? 19 : 0;
  for (const Row& row : rows) {
    double sum = 0;
    double least = 1;
    const auto begin = static_cast<int>(row.integer("first_step"));
    const auto end = static_cast<int>(row.integer("last_step"));
    for (int t = begin; t <= end; ++t) {
      const std::set<int> a = kept_after(runs[0], t);
      std::set<int> either = kept_after(runs[1], t);
      const auto both =
          std::count_if(a.begin(), a.end(), [&](int j) { return either.contains(j); });
      either.insert(a.begin(), a.end());
      const double jaccard = static_cast<double>(both) / static_cast<double>(either.size());
      sum += jaccard;
      least = std::min(least, jaccard);
    }
    CHECK(row.real("jaccard") == Approx(sum / (end + 1 - begin)));
    CHECK(row.real("jaccard_least") == Approx(least));
  }
  CHECK(rows.front().integer("first_step") == first);
  CHECK(rows.back().integer("last_step") == 40);
}

TEST_CASE("overlap: two names for the same decisions overlap fully", "[analysis]") {
  const Unit unit = random_unit({.tokens = 30}, 2);
  const std::vector<PolicyRun> runs{run_of("window", 6, unit), run_of("sink:sinks=0", 6, unit)};
  for (const Row& row : analyse("overlap", unit, runs)) CHECK(row.real("jaccard") == 1);
}

TEST_CASE("predicted-kl-steps: intervals and heads add up to the unit's row", "[analysis]") {
  const Unit unit =
      random_unit({.tokens = 41, .group = 2, .prompt_length = 20, .gradient_samples = 2}, 9);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const PolicyRun window = run_of("window", 8, unit, mode);
  const std::vector<Row> rows = analyse("predicted-kl-steps:intervals=4", unit, {window}, mode);
  REQUIRE(rows.size() == 2 * 4);
  const Outcome outcome =
      replay(unit, {{Spec("window"), 8}}, {.protocol = {.mode = mode}}, *make_cpu_backend())
          .front();
  double sum = 0;
  double share = 0;
  for (const Row& row : rows) {
    sum += row.real("predicted_kl");
    share += row.real("share");
  }
  CHECK(sum == Approx(*outcome.result.predicted_kl));
  CHECK(share == Approx(2));
  CHECK(rows.front().integer("first_step") == (mode == Mode::prefill ? 20 : 0));
  CHECK(rows.back().integer("last_step") == 40);
  double last = 0;  // of query head 1
  const auto first = static_cast<int>(rows.back().integer("first_step"));
  const Matrix& nats = window.trajectory.predicted_kl;
  const auto skipped = static_cast<Eigen::Index>(rows.front().integer("first_step"));
  for (Eigen::Index t = first - skipped; t < nats.cols(); ++t) last += nats(1, t);
  CHECK(rows.back().real("predicted_kl") == Approx(last / static_cast<double>(nats.cols())));
}

TEST_CASE("analyses of evictions leave out what does not evict", "[analysis]") {
  const Unit unit = random_unit({.tokens = 30}, 2);
  const std::vector<PolicyRun> runs{run_of("topk", 6, unit), run_of("subgen", 12, unit),
                                    run_of("h2o+quant", 6, unit), run_of("window", 6, unit)};
  for (const char* name : {"score-change", "evictions", "anatomy", "h2o-bound"}) {
    for (const Row& row : analyse(name, unit, runs)) CHECK(row.text("policy") == "window");
  }
}

}  // namespace kvsim::analysis_test::replays_test
