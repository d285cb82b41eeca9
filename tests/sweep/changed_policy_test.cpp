#include <catch2/catch.hpp>

#include "sim/results/policy_code.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::changed_policy_test {

using namespace test_support;
using traces_test::TemporaryFolder;

/// A policy whose author changes his mind: it keeps the oldest tokens, or the newest.
template <int sign>
class ByAge final : public Policy {
 public:
  ByAge(const Params&, const Context&) {}
  Rules rules() const override { return {}; }
  void update(const Step& step, std::span<double> scores) override {
    scores.back() = sign * step.index;
  }
};

template <int sign>
const PolicyInfo& by_age(const char* code) {
  static const PolicyInfo info{.name = "by-age",
                               .keeps = "",
                               .source = "",
                               .sees = "",
                               .differences = "",
                               .params = {},
                               .make = make_policy<ByAge<sign>>,
                               .code = code};
  return info;
}

struct Swept {
  std::size_t replayed = 0;
  std::map<std::string, std::size_t> of_another_code;
};

Swept sweep_into(ResultStore& store, const SweepRequest& wanted) {
  SweepPlan plan = plan_sweep(wanted);
  Swept swept;
  swept.of_another_code = skip_finished(plan, store);
  swept.replayed = plan.num_remaining();
  const std::atomic<bool> interrupted = false;
  run_sweep(plan, *make_cpu_backend(), interrupted,
            [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
              std::vector<Result> rows;
              for (const Outcome& outcome : outcomes) rows.push_back(outcome.result);
              store.add(rows);
            });
  return swept;
}

std::vector<double> recalls(const ResultStore& store, const std::filesystem::path& trace,
                            const std::string& policy) {
  std::vector<double> found;
  for (const Result& row : store.results(Trace(trace).id(), "stream", 0)) {
    if (row.policy == policy) found.push_back(*row.attention_recall);
  }
  return found;
}

TEST_CASE("rows of a policy that has changed since are made again, and no others", "[sweep]") {
  const TemporaryFolder folder;
  const auto trace = folder / "t.h5";
  write_random_trace(trace, 1);
  ResultStore store(folder / "r.sqlite", ResultStore::Access::write);
  SweepRequest wanted = request(trace, "window", {"5", "9"});
  wanted.policies.emplace_back(by_age<-1>("before"));
  CHECK(sweep_into(store, wanted).of_another_code.empty());
  const auto old_numbers = recalls(store, trace, "by-age");
  CHECK(sweep_into(store, wanted).replayed == 0);

  wanted.policies.back() = Spec(by_age<1>("after"));
  const Swept swept = sweep_into(store, wanted);
  CHECK(swept.replayed == 2 * kUnits);
  CHECK(swept.of_another_code == std::map<std::string, std::size_t>{{"by-age", 2 * kUnits}});
  CHECK(recalls(store, trace, "by-age") != old_numbers);
  CHECK(recalls(store, trace, "by-age") == recalls(store, trace, "window"));
  CHECK(sweep_into(store, wanted).replayed == 0);
}

TEST_CASE("after a change of the engine's numbers all rows are made again", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  ResultStore store(folder / "r.sqlite", ResultStore::Access::write);
  const SweepRequest wanted = request(folder / "t.h5", "window;h2o", {"5"});
  sweep_into(store, wanted);
  auto rows = store.results(Trace(folder / "t.h5").id(), "stream", 0);
  for (Result& row : rows) row.policy_code = policy_code(Spec(row.policy), kResultsVersion - 1);
  store.add(rows);
  const Swept swept = sweep_into(store, wanted);
  CHECK(swept.replayed == 2 * kUnits);
  CHECK(swept.of_another_code ==
        std::map<std::string, std::size_t>{{"h2o", kUnits}, {"window", kUnits}});
}

}  // namespace kvsim::changed_policy_test
