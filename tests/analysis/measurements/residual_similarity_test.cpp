// Scissorhands Theorem 3.1 and Figure 10: the residual stream around the MLP block, and scores of
// neighbouring steps.

#include <catch2/catch.hpp>
#include <cmath>

#include "analysis/fits/rank_correlation.h"
#include "analysis/layer_stream.h"
#include "analysis/run_analyses.h"
#include "sim/base/errors.h"
#include "sim/base/random_bits.h"
#include "tests/analysis/analysed.h"
#include "tests/support/reference_replay.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"
#include "tests/support/units.h"
#include "traces/residual_stream.h"

namespace kvsim::analysis_test::residual_similarity_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

TEST_CASE("a layer's stream: lengths and angles of two tokens", "[analysis]") {
  Matrix residual(2, 2), attention(2, 2), next(2, 2);
  residual << 3, 0, 0, 4;
  attention << 0, 4, 0, 0;
  next << 3, 4, 4, 0;  // x is (3, 4) and (0, 4)
  const LayerStream stream(residual, attention, next);
  CHECK(stream.residual == std::vector<double>{3, 4});
  CHECK(stream.attention == std::vector<double>{4, 0});
  CHECK(stream.input == std::vector<double>{5, 4});
  CHECK(stream.added[0] == 0);
  CHECK(stream.added[1] == Approx(std::sqrt(32)));
  CHECK(stream.cosine == std::vector<double>{1, 0});
  CHECK(stream.attention_cosine[0] == Approx(0.8));
  CHECK(stream.attention_cosine[1] == 0);  // with a zero vector
  CHECK(stream.next_cosine.size() == 1);
  CHECK(stream.next_cosine[0] == Approx(0.8));  // of (3, 4) and (0, 4)
  const LayerStream last(residual, attention, {});
  CHECK(last.input == stream.input);
  CHECK(last.cosine.empty());
  CHECK(last.next_cosine.empty());
}

TEST_CASE("a layer's stream: what attention adds is all heads times W_O", "[analysis]") {
  const TemporaryFolder folder;
  constexpr int kHidden = 6;
  test_support::write_random_trace(folder / "t.h5", 4, test_support::kPrompt, kHidden);
  const Trace trace(folder / "t.h5");
  const Matrix added = attention_added(trace, "b", 1, *make_cpu_backend());
  REQUIRE(added.rows() == test_support::kShortSequence);
  for (int t = 0; t < added.rows(); ++t) {
    for (int column = 0; column < kHidden; ++column) {
      double sum = 0;
      for (const int kv_head : {0, 1}) {
        const Unit unit = trace.read_unit({"b", 1, kv_head});
        for (const int head : {0, 1}) {
          const test_support::ReferenceAttention reference(unit, head);
          for (int d = 0; d < 3; ++d) {
            sum += reference.output[t][d] * unit.output_projection[head](d, column);
          }
        }
      }
      CHECK(added(t, column) == Approx(sum).margin(1e-5));
    }
    if (t == 3) break;  // the reference computes all steps each time
  }
  CHECK(read_residual(trace, "b", 1).rows() == test_support::kShortSequence);
  CHECK(read_residual(trace, "b", 2).rows() == 0);
  CHECK(read_residual(trace, "c", 0).rows() == 0);
  const Trace in_memory = Trace::from_image(trace.image());
  CHECK(read_residual(in_memory, "b", 1) == read_residual(trace, "b", 1));
}

void check_scores(const Unit& unit) {
  const int n = unit.num_tokens();
  for (const Row& row : analyse("residual-similarity", unit)) {
    const test_support::ReferenceAttention reference(unit, row.head);
    double correlations = 0;
    int pairs = 0;
    double tokens = 0;
    double pivotal = 0;
    double next = 0;
    double both = 0;
    for (int t = 1; t + 1 < n; ++t) {
      std::vector<double> here;
      std::vector<double> there;
      for (int j = 0; j < t; ++j) {
        if (!is_visible(unit, t, j) || !is_visible(unit, t + 1, j)) continue;
        here.push_back(reference.full[t][j]);
        there.push_back(reference.full[t + 1][j]);
        const bool is_pivotal = here.back() > 1.0 / (t + 1);
        const bool is_next = there.back() > 1.0 / (t + 2);
        tokens += 1;
        pivotal += is_pivotal;
        next += is_next;
        both += is_pivotal && is_next;
      }
      const auto correlation = rank_correlation(here, there);
      if (!correlation) continue;
      correlations += *correlation;
      ++pairs;
    }
    REQUIRE(pairs > n / 2);
    CHECK(row.real("score_correlation") == Approx(correlations / pairs));
    CHECK(row.real("pivotal_again") == Approx(both / pivotal));
    CHECK(row.real("pivotal_share") == Approx(next / tokens));
    CHECK(row.is_null("cosine"));
  }
}

TEST_CASE("residual-similarity: scores carry over as rank correlations and pivotal tokens say",
          "[analysis]") {
  Unit unit = test_support::random_unit({.tokens = 24, .group = 2}, 12);
  if (GENERATE(false, true)) unit.sliding_window = 9;
  if (GENERATE(false, true)) {
    unit.selected = test_support::random_unit({.tokens = 24, .selected = 12}, 3).selected;
  }
  CHECK(analyse("residual-similarity", unit).size() == 2);
  check_scores(unit);
}

TEST_CASE("residual-similarity: equal scores share their ranks, those of 0 included",
          "[analysis]") {
  // The weight of a logit of -200 is 0 in single precision.
  const auto logit = [](int t, int j) {
    const float levels[] = {0, -1.5F, -200};
    return levels[random_bits(static_cast<std::uint64_t>(t / 3), static_cast<std::uint64_t>(j)) %
                  3];
  };
  check_scores(test_support::unit_of_logits(300, logit));
}

TEST_CASE("residual-similarity: scores in the same order at every step correlate fully",
          "[analysis]") {
  const Unit unit = test_support::unit_of_logits(12, [](int, int j) { return 0.3 * j; });
  const Row row = analyse("residual-similarity", unit).at(0);
  CHECK(row.real("score_correlation") == Approx(1));
  CHECK(row.real("pivotal_again") > 0.5);
}

/// The rows of a plan's first table, by column.
std::vector<std::map<std::string, Value>> rows_of(const SweepRequest& request) {
  AnalysisPlan plan = plan_analyses(parse_analyses("residual-similarity"), request, false);
  const std::atomic<bool> interrupted = false;
  std::vector<std::map<std::string, Value>> rows;
  run_analyses(plan, *make_cpu_backend(), interrupted,
               [&](const PlannedUnit&, const std::vector<TableRows>& tables) {
                 for (const std::vector<Value>& values : tables.front().rows) {
                   auto& row = rows.emplace_back();
                   for (std::size_t i = 0; i < values.size(); ++i) {
                     row[tables.front().schema->columns[i].name] = values[i];
                   }
                 }
               });
  return rows;
}

TEST_CASE("residual-similarity: heads of a layer share its stream; the last layer has no F(x)",
          "[analysis]") {
  const TemporaryFolder folder;
  test_support::write_random_trace(folder / "t.h5", 4, test_support::kPrompt, 6);
  SweepRequest request{.traces = {folder / "t.h5"}, .threads = 2};
  request.selection.sequences = {"a"};
  const auto rows = rows_of(request);
  REQUIRE(rows.size() == 8);
  const Trace trace(folder / "t.h5");
  const LayerStream stream(read_residual(trace, "a", 0),
                           attention_added(trace, "a", 0, *make_cpu_backend()),
                           read_residual(trace, "a", 1));
  double sum = 0;
  double least = 1;
  for (const double cosine : stream.cosine) {
    sum += cosine;
    least = std::min(least, cosine);
  }
  for (auto row : rows) {
    if (row["layer"] == Value(std::int64_t{1})) {
      for (const char* column :
           {"cosine", "mlp_norm", "attention_cosine", "next_cosine", "delta", "least_epsilon"}) {
        CHECK(std::holds_alternative<std::monostate>(row[column]));
      }
      CHECK(std::get<double>(row["attention_norm"]) > 0);
      continue;
    }
    CHECK(std::get<double>(row["cosine"]) == Approx(sum / test_support::kLongSequence));
    CHECK(std::get<double>(row["delta"]) == Approx(1 - least));
    CHECK(std::get<double>(row["least_epsilon"]) == Approx(std::sqrt(1 - least)));
  }
}

TEST_CASE("residual-similarity: a trace without stream or projection is refused", "[analysis]") {
  const TemporaryFolder folder;
  test_support::write_random_trace(folder / "t.h5", 4);
  const SweepRequest request{.traces = {folder / "t.h5"}};
  CHECK_THROWS_AS(rows_of(request), DataError);
  CHECK_THROWS_WITH(rows_of(request), Contains("/sequences/a/layers/0/residual") &&
                                          Contains("--also output_projection,residual"));
}

}  // namespace kvsim::analysis_test::residual_similarity_test
