#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "analysis/analyse_unit.h"
#include "analysis/run_analyses.h"
#include "sim/base/errors.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::fragmentation_test {

using namespace test_support;

using Evicted = std::vector<std::int32_t>;  // per token: the step after which it leaves

struct Found {
  std::int64_t page_size, shared;
  double held_mean;
  std::int64_t held_peak;
  double needed_mean, overhead;
};

/// Of a layer whose heads evict so, after a prompt.
std::vector<Found> fragmentation(const std::vector<Evicted>& heads, const std::string& sizes,
                                 int prompt = 0) {
  const int tokens = static_cast<int>(heads.front().size());
  const Unit unit = random_unit({.tokens = tokens, .prompt_length = prompt}, 1);
  std::vector<PolicyRun> runs;
  for (const Evicted& head : heads) {
    runs.push_back({.policy = Spec("window"), .budget = 2, .trajectory = {.evicted_after = head}});
  }
  AnalysisOptions options;
  if (prompt > 0) options.protocol.mode = Mode::prefill;
  LayerRun of_layer;
  for (const PolicyRun& run : runs) of_layer.push_back(&run);
  options.layer_runs = {of_layer};
  const auto specs = parse_analyses("fragmentation:sizes=" + sizes);
  const auto rows = analyse_unit(unit, specs, {runs.front()}, options, *make_cpu_backend());
  std::vector<Found> found;
  for (const AnalysisRow& row : rows.front()) {
    const auto integer = [&](int column) { return std::get<std::int64_t>(row.values[column]); };
    const auto real = [&](int column) { return std::get<double>(row.values[column]); };
    found.push_back({integer(4), integer(5), real(6), integer(7), real(8), real(9)});
  }
  return found;
}

/// The definition: after each step the slots of all blocks of which a head holds a token.
Found by_definition(const std::vector<Evicted>& heads, std::int64_t size, bool shared, int first) {
  const auto tokens = static_cast<int>(heads.front().size());
  const auto holds = [&](const Evicted& head, int token, int step) {
    return token <= step && head[token] > step;
  };
  Found found{size, shared, 0, 0, 0, 0};
  for (int step = first; step < tokens; ++step) {
    std::int64_t held = 0;
    for (int begin = 0; begin < tokens; begin += static_cast<int>(size)) {
      std::int64_t holding = 0;
      for (const Evicted& head : heads) {
        bool any = false;
        for (int token = begin; token < std::min<std::int64_t>(tokens, begin + size); ++token) {
          any |= holds(head, token, step);
          found.needed_mean += holds(head, token, step);
        }
        holding += any;
      }
      if (shared && holding > 0) holding = std::ssize(heads);
      held += holding * size;
    }
    found.held_mean += static_cast<double>(held);
    found.held_peak = std::max(found.held_peak, held);
  }
  found.held_mean /= tokens - first;
  found.needed_mean /= tokens - first;
  found.overhead = found.held_mean / found.needed_mean;
  return found;
}

TEST_CASE("a block is free when none of its tokens is held by a head that it spans", "[analysis]") {
  // Both keep two tokens: the first a window, the second token 0 and the newest one.
  const std::vector<Evicted> heads{{2, 3, 4, 5, 6, 6}, {6, 2, 3, 4, 5, 6}};
  const auto found = fragmentation(heads, "2");
  REQUIRE(found.size() == 2);
  // Steps 0 to 5: the first head holds 1, 2, 2, 2, 2, 2 tokens in 1, 1, 2, 1, 2, 1 blocks, the
  // second as many in 1, 1, 2, 2, 2, 2.
  CHECK(found[0].needed_mean == Approx(22.0 / 6));
  CHECK(found[0].held_mean == Approx(2 * 18.0 / 6));
  CHECK(found[0].held_peak == 8);
  CHECK(found[0].overhead == Approx(36.0 / 22));
  // Together they hold tokens in 1, 1, 2, 2, 3, 2 blocks of two slots of two heads.
  CHECK(found[1].shared == 1);
  CHECK(found[1].held_mean == Approx(4 * 11.0 / 6));
  CHECK(found[1].held_peak == 12);
}

TEST_CASE("fragmentation is what its definition says", "[analysis]") {
  const int prompt = GENERATE(0, 20);
  std::mt19937_64 bits(5);
  std::vector<Evicted> heads(3, Evicted(50));
  for (Evicted& head : heads) {
    for (int token = 0; token < 50; ++token) {
      head[token] = std::max(prompt - 1, token + static_cast<int>(bits() % 20));
      if (head[token] >= 50 || bits() % 8 == 0) head[token] = 50;
    }
  }
  const auto found = fragmentation(heads, "1/3/8/64", prompt);
  REQUIRE(found.size() == 8);
  for (const Found& row : found) {
    CAPTURE(row.page_size, row.shared);
    const Found expected = by_definition(heads, row.page_size, row.shared == 1, prompt);
    CHECK(row.held_mean == Approx(expected.held_mean));
    CHECK(row.held_peak == expected.held_peak);
    CHECK(row.needed_mean == Approx(expected.needed_mean));
    CHECK(row.overhead == Approx(expected.overhead));
    CHECK(row.overhead >= 1);
    if (row.page_size == 1 && row.shared == 0) CHECK(row.overhead == 1);
  }
}

TEST_CASE("fragmentation has a row per layer, and needs all its heads", "[analysis]") {
  const traces_test::TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest wanted = request(folder / "t.h5", "h2o;window", {"6"});
  const auto specs = parse_analyses("fragmentation:sizes=1/4");
  AnalysisPlan plan = plan_analyses(specs, wanted, false);
  const TableSchema& schema = plan.schemas.front();
  for (const ColumnSchema& column : schema.columns) CHECK(!column.name.ends_with("_head"));
  std::set<std::vector<Value>> places;
  std::size_t rows = 0;
  run_analyses(plan, *make_cpu_backend(), false,
               [&](const PlannedUnit&, const std::vector<TableRows>& tables) {
                 for (const std::vector<Value>& row : tables.front().rows) {
                   REQUIRE(row.size() == schema.columns.size());
                   places.insert({row[1], row[2]});
                   ++rows;
                 }
               });
  CHECK(places.size() == kUnits / 2);  // of two KV heads each
  CHECK(rows == places.size() * 2 * 2 * 2);
  wanted.selection.kv_heads = {1};
  CHECK_THROWS_WITH(plan_analyses(specs, wanted, false),
                    Catch::Contains("expected all 2 KV heads of layer"));
}

TEST_CASE("sizes of blocks that are none are refused", "[analysis]") {
  for (const char* sizes : {"0", "1/1", "4/x", "", "2000000"}) {
    CAPTURE(sizes);
    CHECK_THROWS_WITH(fragmentation({{1}}, sizes), Catch::Contains("sizes"));
  }
}

}  // namespace kvsim::analysis_test::fragmentation_test
