#include "sim/results/paired_comparison.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "sim/base/errors.h"

namespace kvsim::paired_comparison_test {

using Catch::Contains;
using Rows = std::vector<Result>;

Result row(const std::string& policy, const std::string& sequence, int layer, int budget,
           const std::string& request, double recall) {
  Result row;
  row.trace_id = "id";
  row.sequence = sequence;
  row.layer = layer;
  row.policy = policy;
  row.budget = budget;
  row.budget_request = request;
  row.mode = "stream";
  row.attention_recall = recall;
  row.attention_loss = 1 - recall;
  return row;
}

/// Layers of one text whose recall is `first`, `first + step`, ...
Rows layers(const std::string& policy, int count, double first, double step, int budget = 8,
            const std::string& request = "20%") {
  Rows rows;
  for (int layer = 0; layer < count; ++layer) {
    rows.push_back(row(policy, "text", layer, budget, request, first + step * layer));
  }
  return rows;
}

Rows operator+(Rows rows, const Rows& more) {
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

PairedComparison recalls(const Rows& a, const Rows& b, const char* budget = nullptr) {
  const Metric metric = metric_named("attention_recall");
  return compare_rows(
      measured(a, metric), measured(b, metric), metric,
      budget == nullptr ? std::nullopt : std::optional(Amount::parse_budget(budget, "--budget")));
}

TEST_CASE("the difference is of paired units", "[comparison]") {
  const PairedComparison compared = recalls(layers("a", 5, 0.5, 0.1), layers("b", 5, 0.4, 0.05));
  REQUIRE(compared.differences.size() == 1);
  const Difference& difference = compared.differences[0];
  CHECK(difference.budget == Value(std::int64_t{8}));
  CHECK(difference.mode == "stream");
  CHECK(difference.samples == 5);
  CHECK_FALSE(difference.of_sequences);
  CHECK(difference.estimate.value == Approx(0.2));
  CHECK(difference.estimate.interval->low >= 0.1);
  CHECK(difference.estimate.interval->high <= 0.3);
  CHECK(difference.is_distinguishable());
  CHECK((compared.only_first.rows == 0 && compared.only_second.rows == 0));
}

TEST_CASE("A against B is B against A with the other sign", "[comparison]") {
  const Rows a = layers("a", 6, 0.5, 0.03);
  const Rows b = layers("b", 6, 0.7, -0.04);
  const Difference forth = recalls(a, b).differences[0];
  const Difference back = recalls(b, a).differences[0];
  CHECK(back.estimate.value == -forth.estimate.value);
  CHECK(back.estimate.interval->low == -forth.estimate.interval->high);
  CHECK(back.estimate.interval->high == -forth.estimate.interval->low);
}

TEST_CASE("a policy against itself differs by 0 in [0, 0]", "[comparison]") {
  const Rows rows = layers("a", 6, 0.5, 0.03);
  const Difference none = recalls(rows, rows).differences[0];
  CHECK(none.estimate.value == 0);
  CHECK((none.estimate.interval->low == 0 && none.estimate.interval->high == 0));
  CHECK_FALSE(none.is_distinguishable());
}

TEST_CASE("one unit gives no interval and no verdict", "[comparison]") {
  const Difference one = recalls(layers("a", 1, 0.9, 0), layers("b", 1, 0.1, 0)).differences[0];
  CHECK(one.estimate.value == Approx(0.8));
  CHECK_FALSE(one.estimate.interval);
  CHECK_FALSE(one.is_distinguishable());
}

TEST_CASE("fewer than five samples give an interval but no verdict", "[comparison]") {
  const Difference four = recalls(layers("a", 4, 0.9, 0), layers("b", 4, 0.1, 0)).differences[0];
  REQUIRE(four.estimate.interval);
  CHECK(four.estimate.interval->low == Approx(0.8));
  CHECK_FALSE(four.is_distinguishable());
  CHECK(
      recalls(layers("a", 5, 0.9, 0), layers("b", 5, 0.1, 0)).differences[0].is_distinguishable());
}

TEST_CASE("from five sequences on each counts once, however many units it has", "[comparison]") {
  Rows a;
  Rows b;
  for (int sequence = 0; sequence < 5; ++sequence) {
    for (int layer = 0; layer < (sequence == 0 ? 10 : 1); ++layer) {
      a.push_back(row("a", fmt::format("text{}", sequence), layer, 8, "8", sequence == 0 ? 1 : 0));
      b.push_back(row("b", fmt::format("text{}", sequence), layer, 8, "8", 0));
    }
  }
  const Difference difference = recalls(a, b).differences[0];
  CHECK(difference.of_sequences);
  CHECK(difference.samples == 5);
  CHECK(difference.estimate.value == Approx(0.2));
}

TEST_CASE("a share is one row for texts of several lengths, tokens are tokens", "[comparison]") {
  const auto of_both = [](const std::string& policy, double recall) {
    return Rows{row(policy, "short", 0, 20, "20%", recall),
                row(policy, "long", 0, 40, "20%", recall),
                row(policy, "long", 0, 20, "20", recall / 2)};
  };
  const PairedComparison compared = recalls(of_both("a", 0.8), of_both("b", 0.4));
  REQUIRE(compared.differences.size() == 2);
  CHECK(compared.differences[0].budget == Value(std::int64_t{20}));
  CHECK(compared.differences[0].samples == 2);
  CHECK(compared.differences[0].estimate.value == Approx(0.3));
  CHECK(compared.differences[1].budget == Value(std::string("20%")));
  CHECK(compared.differences[1].samples == 2);
  CHECK(compared.differences[1].estimate.value == Approx(0.4));
  CHECK(recalls(of_both("a", 0.8), of_both("b", 0.4), "0.2").differences.size() == 1);
  CHECK(recalls(of_both("a", 0.8), of_both("b", 0.4), "20").differences[0].samples == 2);
}

TEST_CASE("budgets that were asked for in other words are the same budget", "[comparison]") {
  const Rows a = layers("a", 3, 0.5, 0.1, 8, "20%");
  CHECK(recalls(a, layers("b", 3, 0.4, 0, 8, "0.2")).differences.size() == 1);
  const PairedComparison tokens = recalls(a, layers("b", 3, 0.4, 0, 8, "8"));
  REQUIRE(tokens.differences.size() == 1);
  CHECK(tokens.differences[0].samples == 3);
  CHECK(recalls(a, layers("b", 3, 0.4, 0, 8, "8"), "20%").differences[0].samples == 3);
}

/// One text of 40 steps asked for by its share, and one of 80 by tokens, both at 20%.
Rows requests_of_two_texts(const std::string& policy, const std::string& mode, double recall) {
  Rows rows = {row(policy, "short", 0, 8, "20%", recall), row(policy, "long", 0, 16, "16", recall),
               row(policy, "long", 0, 40, "40", recall)};
  for (Result& result : rows) {
    result.steps = result.sequence == "short" ? 40 : 80;
    result.mode = mode;
  }
  return rows;
}

TEST_CASE("in stream mode a share is of the steps, whatever the request", "[comparison]") {
  const std::string mode = GENERATE("stream", "stream:every=10");
  const PairedComparison compared =
      recalls(requests_of_two_texts("a", mode, 0.8), requests_of_two_texts("b", mode, 0.4), "20%");
  REQUIRE(compared.differences.size() == 1);
  CHECK(compared.differences[0].samples == 2);
  CHECK(compared.otherwise.units == 0);
}

TEST_CASE("in prefill mode units with other requests than the share are counted", "[comparison]") {
  const Rows a = requests_of_two_texts("a", "prefill", 0.8);
  const Rows b = requests_of_two_texts("b", "prefill", 0.4);
  const PairedComparison compared = recalls(a, b, "20%");
  REQUIRE(compared.differences.size() == 1);
  CHECK(compared.differences[0].samples == 1);
  CHECK(compared.otherwise.units == 1);
  CHECK(compared.otherwise.budgets == std::vector<std::string>{"16", "40"});
  CHECK(recalls(a, b, "16").otherwise.units == 0);
  CHECK_THROWS_WITH(recalls(a, b, "30%"),
                    Contains("name the budget as these rows do, or in tokens"));
}

TEST_CASE("at sampled steps a share is what was asked for, not one of the samples",
          "[comparison]") {
  const std::string mode =
      GENERATE("stream:reference=sample:40", "stream:interval=3,reference=sample:40",
               "prefill:interval=never,reference=sample:40");
  Rows a = requests_of_two_texts("a", mode, 0.8);
  Rows b = requests_of_two_texts("b", mode, 0.4);
  for (Rows* rows : {&a, &b}) {
    for (Result& result : *rows) result.steps = 40;
  }
  const PairedComparison compared = recalls(a, b, "20%");
  REQUIRE(compared.differences.size() == 1);
  CHECK(compared.differences[0].samples == 1);
  CHECK(compared.otherwise.units == 1);
  CHECK_THROWS_WITH(recalls(a, b, "40%"),  // 16 tokens of 40 steps
                    Contains("name the budget as these rows do, or in tokens"));
}

TEST_CASE("rows that only one policy has are counted", "[comparison]") {
  const Rows a = layers("a", 3, 0.5, 0.1) + layers("a", 3, 0.5, 0.1, 16, "40%");
  const Rows b = layers("b", 5, 0.5, 0.1);
  const PairedComparison compared = recalls(a, b);
  CHECK(compared.differences.size() == 1);
  CHECK(compared.differences[0].samples == 3);
  CHECK(compared.only_first.rows == 3);
  CHECK(compared.only_first.budgets == std::vector<std::string>{"40%"});
  CHECK(compared.only_second.rows == 2);
  CHECK(recalls(a, b, "20%").only_first.rows == 0);
}

TEST_CASE("modes are not mixed, and seeds of a unit are one value", "[comparison]") {
  Rows a = layers("a", 3, 0.5, 0);
  Rows b = layers("b", 3, 0.4, 0);
  Rows other_seed_a = layers("a", 3, 0.7, 0);
  Rows other_seed_b = layers("b", 3, 0.4, 0);
  Rows prefill_a = layers("a", 3, 0.9, 0);
  Rows prefill_b = layers("b", 3, 0.1, 0);
  for (Rows* rows : {&other_seed_a, &other_seed_b}) {
    for (Result& result : *rows) result.seed = 1;
  }
  for (Rows* rows : {&prefill_a, &prefill_b}) {
    for (Result& result : *rows) result.mode = "prefill";
  }
  const PairedComparison compared =
      recalls(a + other_seed_a + prefill_a, b + other_seed_b + prefill_b);
  REQUIRE(compared.differences.size() == 2);
  CHECK(compared.differences[0].mode == "prefill");
  CHECK(compared.differences[0].estimate.value == Approx(0.8));
  CHECK(compared.differences[1].estimate.value == Approx(0.2));
  CHECK(compared.differences[1].samples == 3);
}

TEST_CASE("what cannot be compared is refused with a hint", "[comparison]") {
  const Rows a = layers("a", 3, 0.5, 0.1);
  CHECK_THROWS_WITH(recalls(a, layers("b", 3, 0.4, 0, 9, "9")),
                    Contains("a has rows of stream 20%") && Contains("b has rows of stream 9"));
  CHECK_THROWS_WITH(recalls(a, a, "30%"), Contains("--budget 30%"));
  Rows unmeasured = layers("b", 3, 0.4, 0);
  unmeasured[1].attention_recall.reset();
  CHECK_THROWS_WITH(recalls(a, unmeasured), Contains("attention_recall is NULL for b"));
  CHECK_THROWS_WITH(metric_named("recall"), Contains("did you mean 'attention_recall'"));
  for (const char* text : {"device", "label", "policy_code", "run_id"}) {
    CHECK_THROWS_WITH(metric_named(text),
                      Contains("expected a number") && !Contains(std::string(", ") + text + ","));
  }
  CHECK_THROWS_WITH(metric_named("label"), !Contains("label,") && !Contains("label)"));
  CHECK_THROWS_AS(metric_named("layer"), UsageError);
}

TEST_CASE("nats are summed over the units of a sequence, and projected errors over its layers",
          "[comparison]") {
  Rows a;
  Rows b;
  std::vector<LayerErrorRow> layers_a;
  std::vector<LayerErrorRow> layers_b;
  for (int text = 0; text < 6; ++text) {
    for (int layer = 0; layer < 3; ++layer) {
      for (const bool is_a : {true, false}) {
        Result unit = row(is_a ? "a" : "b", fmt::format("text{}", text), layer, 8, "20%", 0.5);
        unit.predicted_kl = (is_a ? 0.02 : 0.01) * (1 + text);
        (is_a ? a : b).push_back(unit);
        unit.kv_head = 1;
        (is_a ? a : b).push_back(unit);
        LayerError error;
        error.projected_error = (is_a ? 1.0 : 3.0) + layer;
        (is_a ? layers_a : layers_b).push_back({unit, error});
      }
    }
  }
  const Metric nats = metric_named("predicted_kl");
  const Difference of_nats =
      compare_rows(measured(a, nats), measured(b, nats), nats, std::nullopt).differences[0];
  CHECK(of_nats.estimate.value == Approx(6 * 0.01 * 3.5));  // the mean of 1 .. 6
  CHECK(of_nats.of_sequences);
  const Metric error = metric_named("projected_error");
  CHECK(error.is_of_layers());
  const Difference of_layers =
      compare_rows(measured(layers_a), measured(layers_b), error, std::nullopt).differences[0];
  CHECK(of_layers.estimate.value == Approx(-2 * 3));
  CHECK(of_layers.samples == 6);
}

TEST_CASE("every metric says which sign is better, or that none is", "[comparison]") {
  const auto preferred = [](const char* name) { return metric_named(name).declared.preferred; };
  CHECK(preferred("attention_recall") == Preferred::higher);
  for (const char* loss :
       {"attention_loss", "miss_rate", "output_error_mean", "output_error_p95", "output_error_sq",
        "projected_error", "predicted_kl", "bound_mean", "cache_bytes"}) {
    CHECK(preferred(loss) == Preferred::lower);
  }
  CHECK(preferred("steps") == Preferred::neither);
}

}  // namespace kvsim::paired_comparison_test
