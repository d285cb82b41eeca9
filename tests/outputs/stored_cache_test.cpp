#include "sim/outputs/stored_cache.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "policies/registry/registry.h"
#include "sim/base/errors.h"
#include "sim/replay/replay_checks.h"
#include "tests/support/compare.h"
#include "tests/support/units.h"

namespace kvsim::stored_cache_test {

using namespace test_support;

std::string seen;  // by the store that Shown makes

/// Keeps vectors as recorded, and notes what it is shown.
class Shown final : public Store {
 public:
  using Store::Store;

  void settle(const StoredStep& step) override {
    Store::settle(step);
    seen += fmt::format("{}{}: {} > {}; ", step.index, step.is_whole ? " whole" : "",
                        fmt::join(step.attended, ","), fmt::join(step.held, ","));
    double sum = 0;
    for (const float share : step.attention) sum += share;
    CHECK(sum == Approx(1).margin(1e-5));
  }
};

/// What a store of Doubled says of a token that it has had for more than a step.
class Doubling final : public Store {
 public:
  using Store::Store;

  StoredToken at(std::int32_t token) const override {
    StoredToken stored = Store::at(token);
    stored.log_weight = std::log(2.0);
    return stored;
  }

  std::size_t bytes() const override { return Store::bytes() + 5; }
};

template <class Kept>
class Kind final : public StoreKind {
 public:
  explicit Kind(bool keeps_evicted = false) : keeps_evicted_(keeps_evicted) {}
  std::unique_ptr<Store> make(const StoreContext& context) const override {
    return std::make_unique<Kept>(context);
  }
  std::size_t bytes(const VectorShape& shape, int tokens, int) const override {
    return shape.bytes() * static_cast<std::size_t>(tokens);
  }
  bool keeps_evicted() const override { return keeps_evicted_; }

 private:
  bool keeps_evicted_;
};

std::shared_ptr<const StoreKind> kind;  // of the policy below

/// The newest tokens, in a store of `kind`.
class StoredWindow final : public Policy {
 public:
  StoredWindow(const Params&, const Context&) {}
  Rules rules() const override { return {.store = kind}; }
  void update(const Step& step, std::span<double> scores) override { scores.back() = step.index; }
};

Outcome replay_stored(const Unit& unit, std::shared_ptr<const StoreKind> as, int budget,
                      Mode mode = Mode::stream) {
  static const bool is_registered = [] {
    register_policy({.name = "stored-window",
                     .keeps = "",
                     .source = "",
                     .sees = "",
                     .differences = "",
                     .params = {},
                     .make = make_policy<StoredWindow>,
                     .code = "test",
                     .origin = "test"});
    return true;
  }();
  CHECK(is_registered);
  kind = std::move(as);
  const ReplayOptions options{.protocol = {.mode = mode}, .trajectories = true};
  return replay(unit, {{Spec("stored-window"), budget}}, options, *make_cpu_backend()).front();
}

Outcome replay_recorded(const Unit& unit, const std::string& spec, int budget,
                        Mode mode = Mode::stream) {
  const ReplayOptions options{.protocol = {.mode = mode}, .trajectories = true};
  return replay(unit, {{Spec(spec), budget}}, options, *make_cpu_backend()).front();
}

TEST_CASE("a store that alters nothing gives what recorded vectors give", "[stored]") {
  Unit unit = random_unit({.tokens = 60, .head_dim = 8, .value_dim = 6, .group = 2}, 71);
  unit.prompt_length = 20;
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  switch (GENERATE(0, 1, 2)) {
    case 1:
      unit.logit_softcap = 3.F;
      break;
    case 2:
      unit.sliding_window = 7;
      unit.sink_logit = {0.F, 2.F};
      break;
    default:
      break;
  }
  const Outcome stored = replay_stored(unit, std::make_shared<Kind<Store>>(), 11, mode);
  const Outcome recorded = replay_recorded(unit, "window", 11, mode);
  CHECK(stored.trajectory.evicted_after == recorded.trajectory.evicted_after);
  CHECK((stored.trajectory.output_error - recorded.trajectory.output_error).isZero(1e-5));
  CHECK(stored.result.attention_recall == recorded.result.attention_recall);
  CHECK(stored.result.cache_bytes == recorded.result.cache_bytes);
  CHECK(stored.result.bound_mean == std::nullopt);
}

TEST_CASE("a store is shown each step, what it attended to and what is left", "[stored]") {
  Unit unit = random_unit({.tokens = 4, .group = 2}, 72);
  seen.clear();
  replay_stored(unit, std::make_shared<Kind<Shown>>(), 2);
  CHECK(seen == "0: 0 > 0; 1: 0,1 > 0,1; 2: 0,1,2 > 1,2; 3: 1,2,3 > 2,3; ");
  unit.prompt_length = 3;
  seen.clear();
  replay_stored(unit, std::make_shared<Kind<Shown>>(), 1, Mode::prefill);
  CHECK(seen == "0 whole: 0 > 0; 1 whole: 0,1 > 0,1; 2: 0,1,2 > 2; 3: 2,3 > 3; ");
}

TEST_CASE("a store that keeps what the policy evicts loses nothing", "[stored]") {
  const Unit unit = random_unit({.tokens = 60, .head_dim = 8, .group = 2}, 73);
  const Outcome stored = replay_stored(unit, std::make_shared<Kind<Store>>(true), 5);
  CHECK(stored.result.attention_recall == 1);
  CHECK(stored.trajectory.output_error.isZero(1e-5));
  CHECK(stored.result.peak_tokens == 60);
  CHECK(stored.result.evictions == 55);
}

TEST_CASE("a weight counts a token several times, and a store says how large it is", "[stored]") {
  // All logits are 0: of a step's tokens all but its own count twice.
  const Unit unit = uniform_unit({.tokens = 3, .value_dim = 1});
  const Outcome stored = replay_stored(unit, std::make_shared<Kind<Doubling>>(), 3);
  const auto value = [&](int token) { return double{unit.value(token, 0)}; };
  const double full = (value(0) + value(1) + value(2)) / 3;
  const double doubled = (2 * value(0) + 2 * value(1) + value(2)) / 5;
  CHECK(stored.trajectory.output_error(0, 2) ==
        Approx(std::abs(full - doubled) / std::abs(full)).epsilon(1e-5));
  const auto recorded = replay_recorded(unit, "window", 3).result.cache_bytes;
  CHECK(stored.result.cache_bytes == recorded + 5);
}

TEST_CASE("a store needs the full attention of every step", "[stored]") {
  kind = std::make_shared<Kind<Store>>();
  const Protocol protocol{.reference = Reference::none};
  CHECK_THROWS_AS(check_protocol(protocol, Spec("stored-window"), 3), UsageError);
}

}  // namespace kvsim::stored_cache_test
