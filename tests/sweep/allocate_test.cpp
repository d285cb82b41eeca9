#include "sim/sweep/allocate.h"

#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>

#include "sim/attention/persistence.h"
#include "sim/base/errors.h"
#include "sim/sweep/head_table.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"
#include "tests/support/units.h"

namespace kvsim::allocate_test {

using namespace test_support;

// Layers of two heads each, with the persistence of each layer.
std::vector<UnitProfile> layers(const std::vector<double>& persistence) {
  std::vector<UnitProfile> units;
  for (std::size_t layer = 0; layer < persistence.size(); ++layer) {
    for (int head = 0; head < 2; ++head) {
      units.push_back(
          {.name = {"text", static_cast<int>(layer), head}, .persistence = persistence[layer]});
    }
  }
  return units;
}

std::vector<int> split(Allocation allocation, int budget, int most,
                       const std::vector<UnitProfile>& units) {
  // What a file would say of each head.
  HeadTable table{.rows = 1, .layers = 5, .heads = 2};
  table.values = {3, 0.5, 0, 1, 7, 2, 1, 1, 0.1, 4};
  AllocationSpec spec(allocation);
  if (allocation == Allocation::duo) {
    spec.set("sinks", "0");
    spec.set("recent", "1");
  }
  return allocate(spec, {.tokens = budget, .most = most}, units, &table);
}

std::vector<double>& votes(UnitProfile& unit) {
  unit.spread_of_last[kVotingSteps] = {.entropy = 1.0 + unit.name.layer, .variance = 0.1};
  return unit.attention_of_last[kVotingSteps];
}

int sum(const std::vector<int>& shares) { return std::accumulate(shares.begin(), shares.end(), 0); }

TEST_CASE("every allocation keeps the total and leaves every head something", "[allocate]") {
  std::vector<UnitProfile> units = layers({1, 0.9, 0.31, 0.02, 0});
  for (std::size_t i = 0; i < units.size(); ++i) {
    for (int token = 0; token < 50; ++token) {
      votes(units[i]).push_back(static_cast<double>((token * 7 + i * 11) % 13));
    }
  }
  for (const std::string& name : allocation_names()) {
    for (const int budget : {1, 2, 3, 10, 37, 49}) {
      CAPTURE(name, budget);
      const std::vector<int> shares = split(parse_allocation(name), budget, 1000, units);
      REQUIRE(shares.size() == units.size());
      CHECK(sum(shares) == budget * static_cast<int>(units.size()));
      CHECK(*std::min_element(shares.begin(), shares.end()) >= 1);
    }
  }
}

TEST_CASE("no head gets more than it can hold, and the others get what that leaves", "[allocate]") {
  // Of 4 * 80 layer 0 would have 160 and layer 1 80.
  CHECK(split(Allocation::persistence, 80, 100, layers({0.25, 0.5, 1, 1})) ==
        std::vector<int>{100, 100, 100, 100, 60, 60, 60, 60});
  for (const std::string& name : allocation_names()) {
    for (const int budget : {99, 100, 101, 1000000000}) {
      std::vector<UnitProfile> units = layers({1, 0.5, 0.2});
      for (UnitProfile& unit : units) votes(unit).assign(100, 1);
      const std::vector<int> shares = split(parse_allocation(name), budget, 100, units);
      CAPTURE(name, budget);
      CHECK(sum(shares) == std::min(budget, 100) * 6);
      CHECK(*std::max_element(shares.begin(), shares.end()) <= 100);
    }
  }
}

TEST_CASE("where layers lack heads the total is kept all the same", "[allocate]") {
  std::vector<UnitProfile> units = layers({1, 0.5, 0.7});
  units.erase(units.begin());
  for (UnitProfile& unit : units) votes(unit).assign(100, 1);
  for (const std::string& name : allocation_names()) {
    for (const int budget : {1, 7, 40, 63}) {
      CAPTURE(name, budget);
      CHECK(sum(split(parse_allocation(name), budget, 100, units)) == budget * 5);
    }
  }
}

TEST_CASE("uniform gives every head the budget", "[allocate]") {
  CHECK(split(Allocation::uniform, 7, 1000, layers({1, 0.5})) == std::vector<int>{7, 7, 7, 7});
}

TEST_CASE("pyramid falls evenly from nearly twice the budget to a twentieth", "[allocate]") {
  // 2 B - B / 20 = 156 to B / 20 = 4, in steps of 38.
  CHECK(split(Allocation::pyramid, 80, 1000, layers({1, 1, 1, 1, 1})) ==
        std::vector<int>{156, 156, 118, 118, 80, 80, 42, 42, 4, 4});
  CHECK(split(Allocation::pyramid, 100, 1000, layers({1})) == std::vector<int>{100, 100});
}

// KVCache-Factory's PyramidKV with window_size=16 on a prompt of 384 keeps these numbers.
TEST_CASE("pyramid splits what the policy's window leaves", "[allocate]") {
  const auto pyramid = [](int budget) {
    const TotalBudget total{
        .tokens = budget, .most = 512, .length = 384, .window = {.protects = 16}};
    const std::vector<int> shares = allocate(Allocation::pyramid, total, layers({1, 1, 1, 1}));
    CHECK(sum(shares) == 8 * budget);
    return std::vector<int>{shares[0], shares[2], shares[4], shares[6]};
  };
  CHECK(pyramid(38) == std::vector<int>{59, 45, 31, 17});
  // 21 in the last layer if the step of 38.67 is rounded down, which is 4 more than the budget.
  CHECK(pyramid(77) == std::vector<int>{135, 96, 58, 19});
  CHECK(pyramid(230) == std::vector<int>{230, 230, 230, 230});
  CHECK(pyramid(16) == std::vector<int>{16, 16, 16, 16});
  CHECK(pyramid(1) == std::vector<int>{1, 1, 1, 1});
}

TEST_CASE("pyramid gives the first layer no more than the text has", "[allocate]") {
  // 2 * 48 - 2 = 94 of the 90 tokens before the window.
  const TotalBudget total{.tokens = 58, .most = 100, .length = 100, .window = {.protects = 10}};
  CHECK(allocate(Allocation::pyramid, total, layers({1, 1, 1})) ==
        std::vector<int>{100, 100, 58, 58, 16, 16});
}

TEST_CASE("a layer whose share rounds to nothing gets something all the same", "[allocate]") {
  // Of 2 * 5 tokens the first layer would have 10, all that it can hold.
  CHECK(split(Allocation::pyramid, 5, 10, layers({1, 1})) == std::vector<int>{9, 9, 1, 1});
}

TEST_CASE("the window of a policy is what it protects at any budget", "[allocate]") {
  CHECK(window_of(Spec("snapkv:window=24"), 40).protects == 24);
  CHECK(window_of(Spec("h2o:recent=16"), 40).protects == 16);
  CHECK(window_of(Spec("h2o:recent=0.5"), 40).protects == 0);
  CHECK(window_of(Spec("knorm+protect:last=5"), 40).protects == 5);
  CHECK(window_of(Spec("knorm+protect:last=10%"), 2147483647).protects == 0);
  CHECK(window_of(Spec("tova"), 40).protects == 0);
  const PolicyWindow own = window_of(Spec("snapkv:window=24,kernel=7,pool=max"), 40);
  CHECK(own.voting_steps == 24);
  CHECK(own.kernel == 7);
  CHECK(own.pools_maximum);
  CHECK(window_of(Spec("h2o:recent=16"), 40).voting_steps == 32);
}

TEST_CASE("adaptive exempts the policy's window from the competition", "[allocate]") {
  // Head 0 attends to its window alone. Without it, of 2 * 3 others all are of head 1.
  std::vector<UnitProfile> units = layers({1});
  votes(units[0]) = {0, 0, 0, 0, 0, 0, 0, 0, 5, 5};
  votes(units[1]) = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
  const TotalBudget total{.tokens = 5, .most = 10, .length = 10, .window = {.protects = 2}};
  CHECK(allocate(Allocation::adaptive, total, units) == std::vector<int>{2, 8});
  // A fifth of 15 is one more than the window.
  for (UnitProfile& unit : units) votes(unit).insert(votes(unit).begin(), 40, votes(unit)[0]);
  const TotalBudget larger{.tokens = 15, .most = 50, .length = 50, .window = {.protects = 2}};
  CHECK(allocate(Allocation::adaptive, larger, units) == std::vector<int>{3, 27});
}

TEST_CASE("adaptive pools votes as the policy does", "[allocate]") {
  // The peak of head 0 spreads to three tokens before the two voting steps.
  std::vector<UnitProfile> units = layers({1});
  for (UnitProfile& unit : units) unit.attention_of_last[2] = std::vector<double>(10, 0.1);
  units[0].attention_of_last[2][7] = 9;
  const auto first = [&](std::size_t kernel, bool maximum) {
    const TotalBudget total{
        .tokens = 4,
        .most = 10,
        .length = 10,
        .window = {.protects = 2, .voting_steps = 2, .kernel = kernel, .pools_maximum = maximum}};
    return allocate(Allocation::adaptive, total, units)[0];
  };
  CHECK(first(1, false) == 2 + 4);
  CHECK(first(3, true) == 2 + 4);
  units[1].attention_of_last[2][3] = 9.5;
  CHECK(first(1, false) == 2 + 3);
  CHECK(first(3, true) == 2 + 1);
}

TEST_CASE("persistence gives a layer in which half as much persists twice as much", "[allocate]") {
  CHECK(split(Allocation::persistence, 30, 1000, layers({0.8, 0.4})) ==
        std::vector<int>{20, 20, 40, 40});
  CHECK(split(Allocation::persistence, 30, 1000, layers({1, 1})) ==
        std::vector<int>{30, 30, 30, 30});
}

TEST_CASE("adaptive gives a head as many tokens as it has among the layer's best", "[allocate]") {
  // Head 0 attends to one token, head 1 to all evenly. Of 2 * 5 tokens each head keeps its best
  // one (a fifth of 5); the 8 best of the rest are all of head 1.
  std::vector<UnitProfile> units = layers({1});
  votes(units[0]) = {0.90, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.02, 0.01};
  votes(units[1]) = std::vector<double>(10, 0.1);
  CHECK(split(Allocation::adaptive, 5, 1000, units) == std::vector<int>{1, 9});
  // Equal heads have equal budgets.
  votes(units[0]) = votes(units[1]);
  const std::vector<int> alike = split(Allocation::adaptive, 5, 1000, units);
  CHECK(sum(alike) == 10);
  // Layers do not compete with each other.
  std::vector<UnitProfile> two = layers({1, 1});
  for (UnitProfile& unit : two) votes(unit) = std::vector<double>(10, 0.1);
  for (const std::size_t i : {0U, 1U}) {
    for (double& attention : votes(two[i])) attention *= 9;
  }
  const std::vector<int> shares = split(Allocation::adaptive, 5, 1000, two);
  CHECK(shares[0] + shares[1] == 10);
}

TEST_CASE("the profile of a head is what its attention says by definition", "[allocate]") {
  const Unit unit = random_unit({.tokens = 70, .group = 2, .prompt_length = 41}, 5);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const int steps = mode == Mode::stream ? 70 : 41;
  const UnitProfile profile = measure_profile(unit, {.mode = mode}, *make_cpu_backend());
  std::vector<double> window(static_cast<std::size_t>(steps));
  double persistence = 0;
  for (const Matrix& query : unit.query) {
    std::vector<bool> before(static_cast<std::size_t>(steps / 2)), after = before;
    for (int t = 0; t < steps; ++t) {
      std::vector<double> a;
      for (int j = 0; j <= t; ++j) {
        a.push_back(std::exp(double{unit.scale} * query.row(t).dot(unit.key.row(j))));
      }
      const double total = std::accumulate(a.begin(), a.end(), 0.0);
      for (std::size_t j = 0; j < a.size(); ++j) {
        if (t >= steps - 32) window[j] += a[j] / total;
        const bool is_pivotal = a[j] / total > 1.0 / (t + 1);
        if (j < before.size() && is_pivotal) (t < steps / 2 ? before : after)[j] = true;
      }
    }
    int both = 0, second = 0;
    for (std::size_t j = 0; j < before.size(); ++j) {
      second += after[j];
      both += before[j] && after[j];
    }
    persistence += static_cast<double>(both) / second / 2;
  }
  CHECK(profile.persistence == Approx(persistence));
  REQUIRE(profile.attention_of_last.at(32).size() == window.size());
  for (std::size_t j = 0; j < window.size(); ++j) {
    CHECK(profile.attention_of_last.at(32)[j] == Approx(window[j]).epsilon(1e-5));
  }
}

TEST_CASE("a sweep splits each sequence's budget, whatever part of it is selected", "[allocate]") {
  const traces_test::TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const std::string allocation = GENERATE("pyramid", "persistence", "adaptive", "cake");
  SweepRequest wanted = request(folder / "t.h5", "window@" + allocation, {"11"});
  const std::vector<Result> all = rows_of(wanted);
  REQUIRE(all.size() == kUnits);
  std::map<std::string, std::int64_t> total;
  std::set<std::int64_t> different;
  for (const Result& row : all) {
    CHECK(row.policy == Spec("window@" + allocation).text());
    CHECK(row.budget == 11);
    total[row.sequence] += row.peak_tokens;
    different.insert(row.peak_tokens);
  }
  CHECK(total == std::map<std::string, std::int64_t>{{"a", 44}, {"b", 44}});
  CHECK(different.size() > 1);
  wanted.selection = {{"b"}, {1}, {0}};
  const std::vector<Result> one = rows_of(wanted);
  REQUIRE(one.size() == 1);
  const auto same = std::find_if(all.begin(), all.end(), [](const Result& row) {
    return row.sequence == "b" && row.layer == 1 && row.kv_head == 0;
  });
  CHECK(one.front().peak_tokens == same->peak_tokens);
  CHECK(one.front().attention_recall == same->attention_recall);
}

TEST_CASE("budgets of heads that share a cache cannot differ", "[allocate]") {
  const traces_test::TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  CHECK_THROWS_AS(plan_sweep(request(folder / "t.h5", "tova:scope=layer@adaptive", {"6"})),
                  UsageError);
  const auto rows = rows_of(request(folder / "t.h5", "tova:scope=layer@pyramid", {"6"}));
  CHECK(rows.size() == kUnits);
}

TEST_CASE("a spec names its allocation after an @", "[allocate]") {
  CHECK(Spec("window@uniform").text() == "window");
  CHECK(Spec("window@uniform").allocated(Allocation::pyramid).text() == "window");
  CHECK(Spec("window").allocated(Allocation::pyramid).text() == "window@pyramid");
  CHECK(Spec("h2o+protect@pyramid").text() == Spec("h2o+protect").text() + "@pyramid");
  CHECK(Spec(Spec("lru@adaptive").text()).allocation() == Allocation::adaptive);
  CHECK_THROWS_WITH(Spec("window@pyramd"), Catch::Contains("did you mean 'pyramid'?"));
  CHECK_THROWS_AS(Spec("window@"), UsageError);
}

}  // namespace kvsim::allocate_test
