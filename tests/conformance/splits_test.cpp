// How the programs of others split budgets over layers and heads, against our splits (splits/).

#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/sweep/allocate.h"
#include "sim/sweep/head_table.h"
#include "traces/trace.h"

namespace kvsim::conformance::splits_test {

using nlohmann::json;
using Budgets = std::vector<std::vector<int>>;

const std::filesystem::path kSample = KVSIM_SOURCE_DIR "/traces/sample/tiny-llama.h5";

json read(const std::string& name) {
  std::ifstream in(KVSIM_SOURCE_DIR "/tests/conformance/splits/" + name + ".json");
  REQUIRE(in);
  return json::parse(in);
}

std::vector<UnitProfile> units_of(int layers, int heads) {
  std::vector<UnitProfile> units;
  for (int layer = 0; layer < layers; ++layer) {
    for (int head = 0; head < heads; ++head) units.push_back({.name = {"text", layer, head}});
  }
  return units;
}

HeadTable table_of(const std::vector<std::vector<double>>& rows) {
  HeadTable table{.file = "golden", .rows = 1, .layers = static_cast<int>(rows.size())};
  table.heads = static_cast<int>(rows.front().size());
  for (const auto& row : rows) table.values.insert(table.values.end(), row.begin(), row.end());
  return table;
}

Budgets split(const AllocationSpec& allocation, const TotalBudget& budget, const HeadTable& table) {
  const std::vector<UnitProfile> units = units_of(table.layers, table.heads);
  const std::vector<int> shares = allocate(allocation, budget, units, &table);
  CHECK(std::accumulate(shares.begin(), shares.end(), 0) ==
        budget.tokens * static_cast<int>(units.size()));
  Budgets budgets;
  for (int layer = 0; layer < table.layers; ++layer) {
    const auto first = shares.begin() + static_cast<std::ptrdiff_t>(layer) * table.heads;
    budgets.emplace_back(first, first + table.heads);
  }
  return budgets;
}

int sum_of(const Budgets& budgets) {
  int sum = 0;
  for (const auto& layer : budgets) sum = std::accumulate(layer.begin(), layer.end(), sum);
  return sum;
}

int largest_difference(const Budgets& ours, const Budgets& theirs) {
  int largest = 0;
  for (std::size_t layer = 0; layer < ours.size(); ++layer) {
    for (std::size_t head = 0; head < ours[layer].size(); ++head) {
      largest = std::max(largest, std::abs(ours[layer][head] - theirs[layer][head]));
    }
  }
  return largest;
}

TEST_CASE("a file of shares gives every head what LUKVPress keeps of it", "[conformance]") {
  const json golden = read("lukv");
  HeadTable curve{.file = "golden", .rows = 99, .layers = 4, .heads = 4};
  curve.values.assign(99 * 16, 0.5);
  for (const json& one : golden.at("cases")) {
    CAPTURE(one.at("name").get<std::string>());
    const HeadTable row = table_of(one.at("removed"));
    std::copy(row.values.begin(), row.values.end(),
              curve.values.begin() + 16 * one.at("row").get<int>());
    const int tokens = one.at("tokens");
    const Budgets theirs = one.at("kept");
    const int budget = sum_of(theirs) / 16;
    CHECK(budget == std::lround((1 - one.at("ratio").get<double>()) * tokens));
    CHECK(split(Allocation::file, {.tokens = budget, .most = tokens + 50, .length = tokens},
                curve) == theirs);
  }
}

TEST_CASE("duo makes the streaming heads of DuoAttentionPress", "[conformance]") {
  const json golden = read("duo");
  const HeadTable alpha = table_of(golden.at("alpha"));
  AllocationSpec duo(Allocation::duo);
  for (const json& one : golden.at("cases")) {
    CAPTURE(one.at("name").get<std::string>());
    duo.set("sinks", std::to_string(one.at("sinks").get<int>()));
    duo.set("recent", std::to_string(one.at("recent").get<int>()));
    const Budgets theirs = one.at("kept");
    const int tokens = one.at("tokens");
    REQUIRE(sum_of(theirs) % 16 == 0);
    CHECK(split(duo, {.tokens = sum_of(theirs) / 16, .most = tokens, .length = tokens}, alpha) ==
          theirs);
  }
}

TEST_CASE("headkv gives every head what HeadKV's program gives it", "[conformance]") {
  const json golden = read("headkv");
  std::vector<std::vector<double>> scores(4);
  for (int layer = 0; layer < 4; ++layer) {
    for (int head = 0; head < 8; ++head) {
      const std::vector<double> each =
          golden.at("scores").at(std::to_string(layer) + '-' + std::to_string(head));
      scores[layer].push_back(std::accumulate(each.begin(), each.end(), 0.0) / 3);
    }
  }
  AllocationSpec headkv(Allocation::headkv);
  for (const json& one : golden.at("cases")) {
    CAPTURE(one.at("name").get<std::string>());
    headkv.set("beta", one.at("beta").dump());
    const int budget = one.at("budget");
    const TotalBudget total{
        .tokens = budget, .most = 5000, .length = 5000, .window = {.protects = one.at("window")}};
    const Budgets theirs = one.at("kept");
    // The program rounds each head alone, and may so miss the total by a few tokens.
    const int off = std::abs(sum_of(theirs) - 32 * budget);
    const Budgets ours = split(headkv, total, table_of(scores));
    CHECK(largest_difference(ours, theirs) <= (off == 0 ? 0 : 1));
    int differ = 0;
    for (std::size_t layer = 0; layer < 4; ++layer) {
      for (std::size_t head = 0; head < 8; ++head) {
        differ += ours[layer][head] != theirs[layer][head];
      }
    }
    CHECK(differ == off);
  }
}

TEST_CASE("cake measures and splits as CAKE's program does", "[conformance]") {
  const json golden = read("cake");
  const Trace sample(kSample);
  std::vector<UnitProfile> units = units_of(4, 4);
  for (UnitProfile& unit : units) {
    unit.name.sequence = golden.at("sequence");
    unit =
        measure_profile(sample.read_unit(unit.name), {.mode = Mode::prefill}, *make_cpu_backend());
  }
  for (int layer = 0; layer < 4; ++layer) {
    AttentionSpread sum;
    for (int head = 0; head < 4; ++head) {
      const AttentionSpread& own = units[4 * layer + head].spread_of_last.at(32);
      sum.entropy += own.entropy;
      sum.variance += own.variance;
    }
    CHECK(sum.entropy == Approx(golden.at("entropy").at(layer).get<double>()).epsilon(1e-6));
    CHECK(sum.variance == Approx(golden.at("variance").at(layer).get<double>()).epsilon(1e-6));
  }
  AllocationSpec cake(Allocation::cake);
  for (const json& one : golden.at("cases")) {
    CAPTURE(one.at("name").get<std::string>());
    cake.set("tau1", one.at("tau1").dump());
    cake.set("tau2", one.at("tau2").dump());
    const TotalBudget total{
        .tokens = one.at("budget"), .most = 512, .length = 384, .window = {.protects = 32}};
    const std::vector<int> shares = allocate(cake, total, units);
    const std::vector<int> theirs = one.at("kept");
    for (std::size_t i = 0; i < shares.size(); ++i) CHECK(shares[i] == theirs[i / 4]);
  }
}

}  // namespace kvsim::conformance::splits_test
