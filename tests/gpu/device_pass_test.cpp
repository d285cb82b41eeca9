#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <thread>

#include "sim/kernels/attention_kernels.h"
#include "tests/gpu/block_differences.h"
#include "tests/gpu/devices.h"
#include "tests/support/units.h"

namespace kvsim::gpu_test::device_pass_test {

using test_support::random_unit;
using test_support::uniform_unit;

// A block of the right shape with wrong content, so that what compute() does not write stays wrong.
AttentionBlock poisoned(const Unit& unit, int first_step, int num_steps) {
  const int width = first_step + num_steps;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  AttentionBlock block;
  block.heads.resize(unit.group_size());
  for (HeadAttention& head : block.heads) {
    head.logit.resize(num_steps, width);
    head.logit.setConstant(nan);
    head.weight.resize(num_steps, width);
    head.weight.setConstant(nan);
    head.sink_weight.assign(num_steps, nan);
    head.weight_sum.assign(num_steps, nan);
    head.output.setConstant(num_steps, unit.value.cols(), nan);
    head.num_pivotal.assign(num_steps, -1);
  }
  block.longest_value.assign(num_steps, nan);
  return block;
}

// Runs both devices over the whole unit; the first block is short, so that sizes change both ways.
std::string unit_differences(const Unit& unit, const Backend& tested, int block_steps) {
  const auto tested_pass = tested.attend(unit);
  const auto cpu_pass = make_cpu_backend()->attend(unit);
  std::string found;
  for (int step = 0, count = std::min(3, unit.num_tokens()); step < unit.num_tokens();
       step += count, count = std::min(block_steps, unit.num_tokens() - step)) {
    AttentionBlock tested_block = poisoned(unit, step, count);
    AttentionBlock cpu_block;
    tested_pass->compute(step, count, Outputs::required, tested_block);
    cpu_pass->compute(step, count, Outputs::required, cpu_block);
    found += differences(unit, tested_block, cpu_block);
  }
  return found;
}

TEST_CASE("device: every field of a block is the CPU's") {
  const int head_dim = GENERATE(1, 3, 70);
  const int tokens = GENERATE(1, 65, 200);
  const int group = GENERATE(1, 3);
  const bool has_window = GENERATE(false, true);
  const bool has_softcap = GENERATE(false, true);
  const bool has_sinks = GENERATE(false, true);
  Unit unit = random_unit(
      {.tokens = tokens, .head_dim = head_dim, .value_dim = head_dim + 2, .group = group},
      head_dim * 1000 + tokens);
  if (has_window) unit.sliding_window = 17;
  if (has_softcap) unit.logit_softcap = 2.5F;
  if (has_sinks) {
    for (int head = 0; head < group; ++head) unit.sink_logit.push_back(4.F * head - 2);
    unit.attention_chunk = 50;
  }
  for (const TestedDevice& device : tested_devices()) {
    CAPTURE(device.name, head_dim, tokens, group, has_window, has_softcap, has_sinks);
    CHECK(unit_differences(unit, *device.backend(), 32) == "");
    CHECK(unit_differences(unit, *device.backend(), 17) == "");
  }
}

TEST_CASE("device: equal logits give equal weights and exact counts") {
  Unit unit = uniform_unit({.tokens = kBlockSteps});
  if (GENERATE(false, true)) unit.sliding_window = 5;
  for (const TestedDevice& device : tested_devices()) {
    CAPTURE(device.name);
    AttentionBlock block = poisoned(unit, 0, unit.num_tokens());
    device.backend()->attend(unit)->compute(0, unit.num_tokens(), Outputs::required, block);
    for (int step = 0; step < unit.num_tokens(); ++step) {
      const int visible = step + 1 - first_visible(unit, step);
      CHECK(block.heads[0].weight_sum[step] == visible);
      CHECK(block.heads[0].num_pivotal[step] == (visible <= step ? visible : 0));
    }
  }
}

TEST_CASE("device: outputs that are optional are left out, and the rest is the same") {
  const Unit unit = random_unit({.tokens = 40, .group = 2}, 3);
  for (const TestedDevice& device : tested_devices()) {
    const auto backend = device.backend();
    AttentionBlock with = poisoned(unit, 0, 32);
    AttentionBlock without = poisoned(unit, 0, 32);
    backend->attend(unit)->compute(0, 32, Outputs::required, with);
    backend->attend(unit)->compute(0, 32, Outputs::optional, without);
    for (int head = 0; head < unit.group_size(); ++head) {
      CHECK(without.heads[head].output.rows() == 0);
      CHECK(without.heads[head].output_norm.empty());
      CHECK(without.heads[head].weight == with.heads[head].weight);
      CHECK(without.heads[head].weight_sum == with.heads[head].weight_sum);
    }
  }
}

TEST_CASE("device: a model that selects tokens is refused with the way out") {
  const Unit unit = random_unit({.tokens = 40, .selected = 5}, 3);
  for (const TestedDevice& device : tested_devices()) {
    CHECK_THROWS_WITH(device.backend()->attend(unit), Catch::Contains("use --device cpu"));
  }
}

TEST_CASE("device: passes of several threads do not disturb each other") {
  for (const TestedDevice& device : tested_devices()) {
    const auto backend = device.backend();
    std::vector<std::string> found(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < found.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          const int tokens = 100 + 50 * static_cast<int>(i);
          const Unit unit = random_unit({.tokens = tokens, .head_dim = 16, .group = 2}, i);
          found[i] = unit_differences(unit, *backend, 32);
        } catch (const std::exception& error) {
          found[i] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(found == std::vector<std::string>(found.size()));
  }
}

}  // namespace kvsim::gpu_test::device_pass_test
