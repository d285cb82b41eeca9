#include "sim/core/attention_blocks.h"

#include <algorithm>
#include <cstdint>

namespace kvsim {
namespace {

constexpr int kMostStepsPerBlock = 64;
constexpr std::int64_t kEntriesPerBlock = std::int64_t{1} << 23;

}  // namespace

int steps_per_block(int num_tokens, int group_size) {
  const std::int64_t entries_per_step = std::int64_t{num_tokens} * group_size;
  return static_cast<int>(
      std::clamp<std::int64_t>(kEntriesPerBlock / entries_per_step, 1, kMostStepsPerBlock));
}

void for_each_block(const Unit& unit, int num_steps, const Backend& backend,
                    const std::function<void(const AttentionBlock&)>& visit) {
  const auto pass = backend.attend(unit);
  const int block_steps = steps_per_block(unit.num_tokens(), unit.group_size());
  AttentionBlock block;
  for (int first = 0; first < num_steps; first += block_steps) {
    pass->compute(first, std::min(block_steps, num_steps - first), block);
    visit(block);
  }
}

}  // namespace kvsim
