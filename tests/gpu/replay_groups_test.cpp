#include "gpu/replay_groups.h"

#include <catch2/catch.hpp>

#include "gpu/batch_replay.h"
#include "tests/gpu/host_device.h"
#include "tests/support/compare.h"
#include "tests/support/units.h"

namespace kvsim::gpu_test::replay_groups_test {

using gpu::ReplayGroup;

std::vector<gpu::ReplayTask> tasks_of(const std::vector<int>& most_held) {
  std::vector<gpu::ReplayTask> tasks;
  for (const int held : most_held) {
    tasks.push_back({.most_held = held, .prompt_of = static_cast<int>(tasks.size())});
  }
  return tasks;
}

std::string text_of(const std::vector<ReplayGroup>& groups) {
  std::string text;
  for (const ReplayGroup& group : groups) {
    text += std::to_string(group.first) + "+" + std::to_string(group.count) + ":" +
            std::to_string(group.slots) + " ";
  }
  return text;
}

TEST_CASE("replay groups: caches of about one size are together, the smallest first") {
  const gpu::ReplayGroups groups({.num_tokens = 4096},
                                 tasks_of({2000, 100, 384, 385, 4096, 1, 832, 833}));
  CHECK(groups.order() ==
        std::vector<std::int32_t>{5, 1, 2, 3, 6, 7, 0, 4, 0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(text_of(groups.of_block(4032, 64)) == "0+3:448 3+2:896 5+1:897 6+1:2064 7+1:4096 ");
  CHECK(text_of(groups.of_block(512, 64)) == "0+3:448 3+2:576 5+1:576 6+1:576 7+1:576 ");
}

TEST_CASE("replay groups: until a prompt ends, one replay of each rule runs for the others") {
  const gpu::Shape shape{.num_tokens = 1000, .prompt_length = 300};
  std::vector<gpu::ReplayTask> tasks = tasks_of({10, 20, 500, 30, 40});
  for (const int sum : {0, 2, 4}) tasks[sum].rule.kind = ScoreRule::Kind::sum;
  for (const int newest : {1, 3}) {
    tasks[newest].rule.kind = ScoreRule::Kind::newest;
    tasks[newest].arrival_row = newest / 2;
  }
  std::vector<double> arrival_scores(2000, 1);
  gpu::share_prompts(shape, arrival_scores, tasks);
  CHECK(tasks[3].prompt_of == 1);
  arrival_scores[1999] = 2;
  gpu::share_prompts(shape, arrival_scores, tasks);
  CHECK(tasks[2].prompt_of == 0);
  CHECK(tasks[3].prompt_of == 3);
  const gpu::ReplayGroups groups(shape, tasks);
  CHECK(text_of({groups.through_prompt()}) == "5+3:0 ");
  CHECK(text_of(groups.of_block(256, 64)) == "0+5:320 ");
  CHECK(text_of(groups.of_block(320, 64)) == "0+4:104 4+1:384 ");
}

/// Counts the replays that start in each block of steps.
class CountingDevice final : public HostDevice {
 public:
  void run(gpu::Kernel kernel, const gpu::Batch& batch) override {
    if (kernel == gpu::Kernel::replay_steps || kernel == gpu::Kernel::score_prompts) {
      counts_.resize(static_cast<std::size_t>(batch.first_step / gpu::kSteps) + 1, 0);
      counts_.back() += batch.group.count;
    }
    HostDevice::run(kernel, batch);
  }

  const std::vector<int>& counts() const { return counts_; }

 private:
  std::vector<int> counts_;
};

TEST_CASE("replay groups: each replay runs in every block, but through a prompt only once a rule") {
  const Unit unit = test_support::random_unit({.tokens = 300, .prompt_length = 200}, 1);
  std::vector<Configuration> configurations;
  for (const char* policy : {"h2o", "window", "random", "topk"}) {
    for (const int budget : {5, 50, 150}) configurations.push_back({Spec(policy), budget});
  }
  const UnitReplays replays{&unit, configurations};
  CountingDevice stream;
  gpu::replay_on(stream, {&replays, 1}, {});
  CHECK(stream.counts() == std::vector<int>{12, 12, 12, 12, 12});
  CountingDevice prefill;
  gpu::replay_on(prefill, {&replays, 1}, {.protocol = {.mode = Mode::prefill}});
  CHECK(prefill.counts() == std::vector<int>{6, 6, 6, 12, 12});  // topk keeps no scores to share
}

}  // namespace kvsim::gpu_test::replay_groups_test
