#include "gpu/cuda_backend.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sim/core/attention_kernels.h"
#include "tests/core/units.h"
#include "tests/gpu/block_differences.h"

namespace kvsim {
namespace {

using core_test::random_unit;
using core_test::uniform_unit;

// Null, with a warning, where the tests that need a device cannot run.
std::unique_ptr<Backend> cuda_or_skip() {
  if (cuda_available()) return make_cuda_backend();
  try {
    make_cuda_backend();
  } catch (const std::runtime_error& error) {
    WARN("skipped: " << error.what());
  }
  return nullptr;
}

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
    head.weight_sum.assign(num_steps, nan);
    head.output.setConstant(num_steps, unit.value.cols(), nan);
    head.num_pivotal.assign(num_steps, -1);
  }
  block.longest_value.assign(num_steps, nan);
  return block;
}

// Runs both devices over the whole unit; the first block is short, so that sizes change both ways.
std::string unit_differences(const Unit& unit, const Backend& cuda, int block_steps) {
  const auto cuda_pass = cuda.attend(unit);
  const auto cpu_pass = make_cpu_backend()->attend(unit);
  std::string found;
  for (int step = 0, count = std::min(3, unit.num_tokens()); step < unit.num_tokens();
       step += count, count = std::min(block_steps, unit.num_tokens() - step)) {
    AttentionBlock cuda_block = poisoned(unit, step, count);
    AttentionBlock cpu_block;
    cuda_pass->compute(step, count, Outputs::now, cuda_block);
    cpu_pass->compute(step, count, Outputs::now, cpu_block);
    found += gpu_test::differences(unit, cuda_block, cpu_block);
  }
  return found;
}

TEST_CASE("cuda: without a device one clear line says so") {
  if (cuda_available()) {
    WARN("skipped: there is a CUDA device");
    return;
  }
  CHECK_THROWS_WITH(make_cuda_backend(),
                    Catch::Matches(R"(no CUDA device is available \([^\n]+\); use --device cpu)"));
}

TEST_CASE("cuda: every field of a block is the CPU's") {
  const auto cuda = cuda_or_skip();
  if (cuda == nullptr) return;
  CHECK(cuda->device() == "cuda");
  const int head_dim = GENERATE(1, 3, 64);
  const int tokens = GENERATE(1, 65, 130, 600);
  const int group = GENERATE(1, 2);
  const int block_steps = GENERATE(17, 32);
  const bool has_window = GENERATE(false, true);
  const bool has_softcap = GENERATE(false, true);
  CAPTURE(head_dim, tokens, group, block_steps, has_window, has_softcap);
  Unit unit = random_unit(
      {.tokens = tokens, .head_dim = head_dim, .value_dim = head_dim + 2, .group = group},
      head_dim * 1000 + tokens);
  if (has_window) unit.sliding_window = 17;
  if (has_softcap) unit.logit_softcap = 2.5F;
  CHECK(unit_differences(unit, *cuda, block_steps).empty());
}

TEST_CASE("cuda: equal logits give equal weights and exact counts") {
  const auto cuda = cuda_or_skip();
  if (cuda == nullptr) return;
  Unit unit = uniform_unit({.tokens = kBlockSteps});
  const bool has_window = GENERATE(false, true);
  if (has_window) unit.sliding_window = 5;
  AttentionBlock block = poisoned(unit, 0, unit.num_tokens());
  cuda->attend(unit)->compute(0, unit.num_tokens(), Outputs::now, block);
  for (int step = 0; step < unit.num_tokens(); ++step) {
    const int visible = step + 1 - first_visible(unit, step);
    CHECK(block.heads[0].weight_sum[step] == visible);
    CHECK(block.heads[0].num_pivotal[step] == (visible <= step ? visible : 0));
  }
}

TEST_CASE("cuda: passes of several threads do not disturb each other") {
  const auto cuda = cuda_or_skip();
  if (cuda == nullptr) return;
  std::vector<std::string> found(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        const int tokens = 100 + 50 * static_cast<int>(i);
        const Unit unit = random_unit({.tokens = tokens, .head_dim = 16, .group = 2}, i);
        found[i] = unit_differences(unit, *cuda, 32);
      } catch (const std::exception& error) {
        found[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(found == std::vector<std::string>(found.size()));
}

}  // namespace
}  // namespace kvsim
