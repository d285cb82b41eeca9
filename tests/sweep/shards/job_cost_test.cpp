#include "sim/sweep/shards/job_cost.h"

#include <catch2/catch.hpp>

#include "sim/sweep/shards/unit_cost.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"
#include "traces/synth/synth.h"

namespace kvsim::job_cost_test {

using namespace test_support;
using traces_test::TemporaryFolder;

std::int64_t cost_of(const SweepRequest& request) {
  const SweepPlan plan = plan_sweep(request);
  const std::vector<SweepJob> jobs = jobs_of(plan);
  REQUIRE_FALSE(jobs.empty());
  return estimated_nanoseconds(plan, jobs.front());
}

struct Synthetic {
  SweepRequest with(const std::string& policies, const std::vector<std::string>& budgets = {"20%"},
                    int tokens = 512, int group = 1) const {
    const auto file = folder / fmt::format("{}-{}.h5", tokens, group);
    if (!std::filesystem::exists(file)) {
      SynthOptions options;
      options.tokens = tokens;
      options.prompt_length = tokens / 2;
      options.layers = 1;
      options.query_heads = 2 * group;
      options.kv_heads = 2;
      options.output = false;
      synthesize(file, options);
    }
    return request(file, policies, budgets);
  }

  TemporaryFolder folder;
};

TEST_CASE("job cost: longer texts, larger groups, more configurations and budgets cost more") {
  const Synthetic synthetic;
  const std::int64_t one = cost_of(synthetic.with("h2o"));
  CHECK(cost_of(synthetic.with("h2o", {"20%"}, 1024)) > 2 * one);
  CHECK(cost_of(synthetic.with("h2o", {"20%"}, 512, 4)) > 2 * one);
  CHECK(cost_of(synthetic.with("h2o", {"40%"})) > one);
  CHECK(cost_of(synthetic.with("h2o;tova", {"20%", "30%"})) > one);
  CHECK(cost_of(synthetic.with("tova:scope=layer")) == 2 * one);  // two heads
}

TEST_CASE("job cost: what compares more than attention costs more than what does not") {
  const Synthetic synthetic;
  const std::int64_t plain = cost_of(synthetic.with("h2o"));
  const std::string dear =
      GENERATE("kcenter", "keydiff", "valuediff", "lookback", "obcache", "topk", "subgen",
               "h2o+quant", "h2o+rest", "optimal", "belady", "greedy", "certificate", "lookahead");
  CAPTURE(dear);
  CHECK(cost_of(synthetic.with(dear)) > plain);
}

TEST_CASE("job cost: an oracle that plans all budgets at once plans once, another one for each") {
  const Synthetic synthetic;
  const auto budgets = std::vector<std::string>{"20%", "21%", "22%", "23%"};
  CHECK(cost_of(synthetic.with("optimal", budgets, 500)) <
        2 * cost_of(synthetic.with("optimal", {"20%"}, 500)));
  // Reading, attention and losses, which all budgets share, are a good half of the cost of one.
  CHECK(cost_of(synthetic.with("greedy", budgets)) > 2 * cost_of(synthetic.with("greedy")));
}

TEST_CASE("job cost: an auction plans each budget") {
  const Synthetic synthetic;
  const auto budgets = std::vector<std::string>{"20%", "21%", "22%", "23%"};
  CHECK(cost_of(synthetic.with("optimal", budgets)) > 2 * cost_of(synthetic.with("optimal")));
}

TEST_CASE("job cost: an oracle plans pages as the tokens of a shorter text") {
  const Synthetic synthetic;
  const auto planning = [&](int page_size) {
    SweepRequest wanted = synthetic.with("optimal", {"128"}, 1024);
    wanted.protocol.paging.size = page_size;
    const std::int64_t with_plan = cost_of(wanted);
    wanted.policies = {Spec("belady")};
    return with_plan - cost_of(wanted);
  };
  CHECK(planning(1) == 12'000 * 1024 + 13 * (1024 * 1025 / 2) / 2);
  CHECK(planning(16) < planning(1) / 100);
}

TEST_CASE("job cost: without a reference, or with a sample, a long text costs less") {
  const Synthetic synthetic;
  SweepRequest wanted = synthetic.with("window", {"64"}, 2048);
  const std::int64_t full = cost_of(wanted);
  wanted.protocol = {.reference = Reference::none};
  const std::int64_t none = cost_of(wanted);
  wanted.protocol = {.reference = Reference::sample, .samples = 16};
  const std::int64_t sample = cost_of(wanted);
  CHECK(none < sample);
  CHECK(sample < full);
}

TEST_CASE("job cost: after a prompt fewer steps are replayed") {
  const Synthetic synthetic;
  SweepRequest wanted = synthetic.with("lookback", {"51"});
  const std::int64_t stream = cost_of(wanted);
  wanted.protocol.mode = Mode::prefill;
  CHECK(cost_of(wanted) < stream);
}

TEST_CASE("job cost: the same on any number of threads, with or without a result") {
  const Synthetic synthetic;
  SweepRequest wanted = synthetic.with("h2o;optimal");
  const std::int64_t one = cost_of(wanted);
  wanted.threads = 8;
  CHECK(cost_of(wanted) == one);
}

TEST_CASE("unit cost: a cache attends to all tokens until it is full, then to what it holds") {
  const auto attended = [](std::int64_t tokens, std::int64_t steps, std::int64_t held) {
    std::int64_t sum = 0;
    for (std::int64_t t = tokens - steps; t < tokens; ++t) sum += std::min(t, held);
    return sum;
  };
  for (const std::int64_t held : {1, 10, 40, 100}) {
    for (const std::int64_t steps : {100, 60, 1}) {
      CAPTURE(held, steps);
      const UnitSizes unit{.tokens = 100, .steps = steps};
      CHECK(std::abs(unit.attended(held) - attended(100, steps, held)) <= 100);
    }
  }
}

}  // namespace kvsim::job_cost_test
