#include "sim/replay/bytes_budget.h"

#include <catch2/catch.hpp>

#include "sim/base/errors.h"

namespace kvsim::bytes_budget_test {

constexpr VectorShape kFloats{.head_dim = 8, .value_dim = 6};  // 56 bytes
constexpr VectorShape kHalves{.head_dim = 8, .value_dim = 6, .key_bytes = 2, .value_bytes = 2};

Amount size(const std::string& text) { return Amount::parse_budget(text, "budget"); }

int tokens(const std::string& policy, const std::string& budget, const VectorShape& shape = kFloats,
           const Protocol& protocol = {}) {
  return budget_of(size(budget), Spec(policy), shape, protocol, 100, 10);
}

/// Keeps a window of the newest tokens as recorded and one byte of each older one; with `evicted`
/// also a byte of each token that left.
class WindowKind : public StoreKind {
 public:
  WindowKind(int window, bool evicted) : window_(window), evicted_(evicted) {}

  std::unique_ptr<Store> make(const StoreContext& context) const override {
    return std::make_unique<Store>(context);
  }
  std::size_t bytes(const VectorShape& shape, int tokens, int length) const override {
    const int whole = std::min(tokens, window_);
    const int others = (evicted_ ? length : tokens) - whole;
    return static_cast<std::size_t>(whole) * shape.bytes() + static_cast<std::size_t>(others);
  }
  bool keeps_evicted() const override { return evicted_; }

 private:
  int window_;
  bool evicted_;
};

class Windowed : public Policy {
 public:
  Windowed(const Params& params, const Context& context)
      : kind_(std::make_shared<WindowKind>(params.amount("window", context.budget),
                                           params.text("evicted") == "yes")) {}
  Rules rules() const override { return {.store = kind_}; }
  void update(const Step&, std::span<double>) override {}

 private:
  std::shared_ptr<const StoreKind> kind_;
};

/// A policy with such a store.
Spec windowed(const std::string& window, bool evicted = false) {
  static std::vector<std::unique_ptr<PolicyInfo>> made;  // specs refer to them
  made.push_back(std::make_unique<PolicyInfo>());
  made.back()->name = "windowed";
  made.back()->params = {Param::amount("window", window, "kept as recorded"),
                         Param::choice("evicted",
                                       evicted ? std::vector<std::string>{"yes", "no"}
                                               : std::vector<std::string>{"no", "yes"},
                                       "evicted tokens")};
  made.back()->make = make_policy<Windowed>;
  return Spec(*made.back());
}

TEST_CASE("a size is the most tokens that fit as recorded", "[budget]") {
  CHECK(tokens("window", "56B") == 1);
  CHECK(tokens("window", "111B") == 1);
  CHECK(tokens("window", "112B") == 2);
  CHECK(tokens("window", "112B", kHalves) == 4);
  CHECK(tokens("h2o:recent=0.25", "56kB") == 1000);  // more than the text has
  CHECK(tokens("h2o+rest", "560B") == 10);           // its entry is one of them
  CHECK(tokens("window@pyramid", "560B") == 10);     // the mean of all heads
}

TEST_CASE("a quantised policy keeps more tokens of the same size", "[budget]") {
  // Two bits: 2 and 2 bytes of codes, and per vector the least number and the step.
  CHECK(tokens("window+quant:bits=2", "200B") == 10);
  CHECK(tokens("window+quant:bits=2", "199B") == 9);
  CHECK(tokens("window+quant:bits=2", "200B", kHalves) == 16);
  CHECK(tokens("window", "200B") == 3);
}

TEST_CASE("what a budget takes is at most the size, and what one more token takes is above",
          "[budget]") {
  const auto policy = GENERATE(as<std::string>(), "window", "h2o+quant:bits=3,group=5", "tova+rest",
                               "subgen", "subgen+quant");
  const Spec spec(policy);
  const int entries = spec.is_estimator() ? 2 : 1;
  for (int bytes = 130; bytes < 1000; bytes += 37) {
    const int budget = budget_that_fits(spec, kFloats, size(std::to_string(bytes) + "B"), 100);
    CHECK(budget % entries == 0);
    CHECK(bytes_of_budget(spec, kFloats, budget, 100) <= static_cast<std::size_t>(bytes));
    CHECK(bytes_of_budget(spec, kFloats, budget + entries, 100) > static_cast<std::size_t>(bytes));
  }
}

TEST_CASE("the budget of an estimator is vectors, a key and a value of each token", "[budget]") {
  CHECK(tokens("subgen", "560B") == 20);
  CHECK(tokens("subgen", "615B") == 20);
}

TEST_CASE("a store says what its cache takes, at the rules of the budget itself", "[budget]") {
  const auto fit = [](const Spec& spec, const char* budget, int length = 100) {
    return budget_that_fits(spec, kFloats, size(budget), length);
  };
  CHECK(fit(windowed("4"), "224B") == 4);
  CHECK(fit(windowed("4"), "234B") == 14);
  CHECK(fit(windowed("4"), "1kB") == 4 + 776);
  CHECK(fit(windowed("50%"), "570B") == 20);  // 10 whole and 10 others
  CHECK(fit(windowed("4"), "234B", 0) == 14);
  // A text of 100 tokens, of which the others take a byte each.
  CHECK(fit(windowed("50%", true), "650B") == 20);  // 10 whole
  CHECK_THROWS_WITH(fit(windowed("4", true), "650B", 0), Catch::Contains("length of the text"));
  CHECK_THROWS_WITH(fit(windowed("4", true), "100B"), Catch::Contains("which takes 155 bytes"));
}

TEST_CASE("a size without room for a token is refused, with what one takes", "[budget]") {
  CHECK_THROWS_WITH(tokens("window", "55B"),
                    "budget 55B: expected room for a token of window, which takes 56 bytes per KV "
                    "head; use 56B or more");
  CHECK_THROWS_WITH(tokens("subgen+quant:bits=8", "1B"),
                    Catch::Contains("two vectors") && Catch::Contains("takes 30 bytes"));
  CHECK_THROWS_WITH(tokens("window", "900000GB"), Catch::Contains("at most 2147483647 tokens"));
}

TEST_CASE("a policy without a budget refuses a size", "[budget]") {
  const Amount size = Amount::parse_budget("8KiB", "budget");
  CHECK_THROWS_WITH(budget_that_fits(Spec("h2o+threshold"), {8, 8, 2, 2}, size, 100),
                    Catch::Contains("has no budget that a size could be"));
  CHECK(budget_that_fits(Spec("full"), {8, 8, 2, 2}, size, 100) == 256);
}

TEST_CASE("what kvquant's cache takes of values counts the ends of each", "[budget]") {
  const Spec policy("window+kvquant:bits=2,outliers=0.01,sinks=0,calibration=1");
  const VectorShape shape{64, 64, 2, 2};
  // Codes, the range of the value and two starts, and two outliers with their places.
  const std::size_t of_value = 64 * 2 / 8 + 2 * 2 + 2 * (2 + 2);
  const auto added =
      bytes_of_budget(policy, shape, 400, 0) - bytes_of_budget(policy, shape, 300, 0);
  CHECK(added == 100 * (64 * 2 / 8 + 2 * 4 + of_value) + 64 * (2 + 2));
}

TEST_CASE("of pages, a size is whole ones, and at least two", "[budget]") {
  const Protocol pages{.paging = {.size = 4}};
  CHECK(tokens("window", "448B", kFloats, pages) == 8);
  CHECK(tokens("window", "671B", kFloats, pages) == 8);
  CHECK(tokens("window", "672B", kFloats, pages) == 12);
  CHECK_THROWS_WITH(
      tokens("window", "447B", kFloats, pages),
      Catch::Contains("two pages of --page 4") && Catch::EndsWith("use 448B or more"));
}

TEST_CASE("tokens and shares are what they are without a policy", "[budget]") {
  CHECK(tokens("window+quant", "7") == 7);
  CHECK(tokens("window+quant", "20%") == 20);
}

}  // namespace kvsim::bytes_budget_test
