#include "sim/core/replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/errors.h"
#include "policies/random_bits.h"
#include "sim/core/policy_replay.h"

namespace kvsim {
namespace {

constexpr int kMostStepsPerBlock = 64;
constexpr std::int64_t kEntriesPerBlock = std::int64_t{1} << 23;

}  // namespace

std::vector<Outcome> replay(const Unit& unit, const std::vector<Configuration>& configurations,
                            const ReplayOptions& options, const Backend& backend) {
  check_mode(unit.name.sequence, unit.num_tokens(), unit.prompt_length, options.mode);
  std::vector<PolicyReplay> replays;
  replays.reserve(configurations.size());
  for (const Configuration& configuration : configurations) {
    replays.emplace_back(unit, configuration, options);
  }
  const std::unique_ptr<AttentionPass> pass = backend.attend(unit);
  const int block_steps = steps_per_block(unit.num_tokens(), unit.group_size());
  AttentionBlock block;
  for (int step = 0; step < unit.num_tokens(); step += block_steps) {
    if (options.interrupted != nullptr && *options.interrupted) throw Interrupted("interrupted");
    pass->compute(step, std::min(block_steps, unit.num_tokens() - step), block);
    for (PolicyReplay& replay : replays) replay.advance(block);
  }
  std::vector<Outcome> outcomes;
  for (PolicyReplay& replay : replays) outcomes.push_back(std::move(replay).finish());
  return outcomes;
}

void check_mode(const std::string& sequence, int num_tokens, int prompt_length, Mode mode) {
  if (mode == Mode::stream) return;
  if (prompt_length == 0) {
    throw UsageError(fmt::format(
        "sequence '{}' has no prompt, so --mode prefill cannot replay it; use --mode stream",
        sequence));
  }
  if (prompt_length == num_tokens) {
    throw UsageError(fmt::format(
        "sequence '{}' ends with its prompt, so --mode prefill has no step to measure; use --mode "
        "stream",
        sequence));
  }
}

int steps_per_block(int num_tokens, int group_size) {
  const std::int64_t entries_per_step = std::int64_t{num_tokens} * group_size;
  return static_cast<int>(
      std::clamp<std::int64_t>(kEntriesPerBlock / entries_per_step, 1, kMostStepsPerBlock));
}

std::uint64_t unit_seed(std::uint64_t seed, const UnitName& unit) {
  const std::uint64_t of_sequence = random_bits(seed, unit.sequence);
  const std::uint64_t of_layer = random_bits(of_sequence, static_cast<std::uint64_t>(unit.layer));
  return random_bits(of_layer, static_cast<std::uint64_t>(unit.kv_head));
}

std::string mode_name(Mode mode) { return mode == Mode::stream ? "stream" : "prefill"; }

}  // namespace kvsim
