#include "sim/sweep/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "sim/kernels/attention_kernels.h"
#include "sim/outputs/tree_sums.h"
#include "sim/results/paired_bootstrap.h"

namespace kvsim {
namespace {

constexpr std::size_t kNumber = sizeof(float);
constexpr std::size_t kRowsAtOnce = 4096;     // that UnitRows reads of a file of small chunks
constexpr std::size_t kFineDistances = 2048;  // of SlotRotation
constexpr std::size_t kSampledNumbers = 7;    // of SampledMetrics, per step
constexpr std::size_t kSharedSums = 2;        // of TreeSums, per edge, as measured
constexpr std::size_t kNumbersPerStep = 4;    // of RetainedOutputs: three scales and a square

/// Keys in panels, and per token the norm of the longest value so far.
std::size_t pass_memory(const ReplayShape& shape) {
  return shape.num_tokens * (shape.head_dim * kNumber + sizeof(double));
}

/// Logits, weights and their transpose, a bit per pivotal token.
std::size_t block_memory(const ReplayShape& shape) {
  const std::size_t per_step = shape.num_tokens * 3 * kNumber + shape.num_tokens / 8;
  return shape.group_size * kBlockSteps * (per_step + shape.value_dim * sizeof(double));
}

/// The errors and token sets (bits) of each configuration, among these what its cache and another
/// one differ in or share, and one cache's weights by slot.
std::size_t measuring_memory(const ReplayShape& shape) {
  const std::size_t errors =
      shape.group_size * (shape.num_tokens / shape.error_stride + 1) * sizeof(double);
  const std::size_t sets = 6 * shape.num_tokens / 8;
  const std::size_t weights = shape.group_size * kBlockSteps * kNumber;
  return shape.configurations * (errors + sets) + shape.gathered * weights;
}

/// Values, and the sums from which the outputs of all caches follow: their tokens, a sum per node
/// of the tree of caches and those that its edges share, scales and squares per step, and the
/// tokens that are evicted in a block, one per step.
std::size_t outputs_memory(const ReplayShape& shape) {
  const std::size_t values = ValuePanels::bytes(shape.num_tokens, shape.value_dim);
  const std::size_t copies = shape.needs_outputs ? 2 : 1;
  const std::size_t tokens = (shape.num_tokens + 2 * shape.held) * sizeof(std::int32_t);
  const std::size_t sum = std::size_t{TreeSums::kMostDims} * kBlockSteps;
  const std::size_t sums =
      (shape.configurations + 1) * sum * (sizeof(double) + kSharedSums * kNumber);
  const std::size_t per_step = kNumbersPerStep * sizeof(double) + sizeof(EvictedTerm);
  return copies * values + tokens + sums + shape.configurations * kBlockSteps * per_step;
}

/// Gradients and the output projection, of which the layer has a copy; the differences of each
/// configuration's outputs.
std::size_t weighed_outputs_memory(const ReplayShape& shape) {
  if (shape.gradient_samples == 0 && shape.hidden == 0) return 0;
  const std::size_t dims = shape.group_size * shape.value_dim;
  const std::size_t gradients = shape.gradient_samples * (shape.num_tokens + kBlockSteps);
  const std::size_t differences = shape.configurations * kBlockSteps;
  return dims * (gradients + 2 * shape.hidden + differences) * kNumber;
}

/// Tokens, scores, attention and slots; without the full attention of every step also the keys in
/// panels, and angles where they are moved; without any reference the vectors themselves.
std::size_t cache_memory(const ReplayShape& shape) {
  const std::size_t per_slot = 2 * sizeof(std::int32_t) + sizeof(double) + kNumber;
  if (shape.has_reference) return shape.held * 2 * per_slot;
  const std::size_t resident = shape.head_dim * kNumber + 3 * sizeof(std::int32_t) + 2 * kNumber;
  const std::size_t angles = (kFineDistances + shape.num_tokens / kFineDistances) * shape.head_dim;
  const std::size_t bytes =
      shape.held * (per_slot + resident) + shape.rotations * angles * sizeof(double);
  if (shape.samples > 0) return bytes;
  return bytes + (shape.held * shape.head_dim + shape.held_with_values * shape.value_dim) * kNumber;
}

/// The full attention of one step, what it takes of the unit, and lists of the missing tokens with
/// their weights; what is measured at the sampled steps, and the draws of its intervals.
std::size_t sampling_memory(const ReplayShape& shape) {
  const std::size_t step =
      shape.num_tokens * (shape.group_size * 2 * kNumber + 4 * sizeof(std::int32_t));
  const std::size_t measured =
      shape.configurations * (shape.group_size + kSampledNumbers) * sizeof(double);
  const std::size_t draws = PairedBootstrap::kDraws * sizeof(std::uint32_t);
  return pass_memory(shape) + step + shape.samples * (measured + draws);
}

/// Tables of a number per step and token, of which the third of an oracle is gone where it plans a
/// budget: of a short text that takes more.
std::size_t oracle_memory(const ReplayShape& shape) {
  const std::size_t table = shape.num_tokens * (shape.num_tokens + 1) / 2 * kNumber;
  const std::size_t of_losses = shape.losses ? table : 0;
  if (!shape.oracles) return of_losses;
  return of_losses + 2 * table + std::max(table, planning_memory(shape));
}

/// Tokens, those that the model selects, and so many rows of the vectors.
std::size_t recorded_memory(const ReplayShape& shape, std::size_t rows) {
  const std::size_t values = shape.reads_values ? shape.value_dim : 0;
  return rows * ((shape.group_size + 1) * shape.head_dim + values) * kNumber +
         shape.num_tokens * (1 + shape.most_selected) * sizeof(std::int32_t);
}

}  // namespace

ReplayShape shape_of(const SelectedUnit& unit) {
  const auto size = [](int number) { return static_cast<std::size_t>(number); };
  return {.num_tokens = size(unit.num_tokens),
          .group_size = size(unit.shape.group_size()),
          .head_dim = size(unit.shape.head_dim),
          .value_dim = size(unit.shape.value_dim),
          .most_selected = size(unit.most_selected)};
}

std::size_t read_memory(const ReplayShape& shape) {
  const bool measures = shape.has_reference || shape.samples > 0;
  if (!measures) return recorded_memory(shape, 0);
  const std::size_t weighs = shape.gradient_samples * shape.num_tokens + shape.hidden;
  return recorded_memory(shape, shape.num_tokens) +
         shape.group_size * shape.value_dim * weighs * kNumber;
}

std::size_t replay_memory(const ReplayShape& shape) {
  const std::size_t n = shape.num_tokens;
  const bool measures = shape.has_reference || shape.samples > 0;
  const std::size_t recorded = recorded_memory(shape, measures ? n : std::min(n, kRowsAtOnce));
  // When each token left, plus one copy while a replay finishes.
  std::size_t bytes = recorded + (shape.configurations + 1) * n * sizeof(std::int32_t) +
                      cache_memory(shape) + shape.remembered;
  if (shape.trajectories) {
    const std::size_t per_step = measures ? shape.group_size * 2 * kNumber : 0;
    bytes += shape.configurations * n * (sizeof(std::int32_t) + per_step);
  }
  if (shape.samples > 0) bytes += sampling_memory(shape) + weighed_outputs_memory(shape);
  if (!shape.has_reference) return bytes;
  bytes += (1 + shape.stored_forms) * (pass_memory(shape) + block_memory(shape)) +
           shape.stored_forms * recorded + outputs_memory(shape) + measuring_memory(shape) +
           weighed_outputs_memory(shape);
  const std::size_t exact_values = shape.losses ? n * shape.value_dim * sizeof(double) : 0;
  return bytes + oracle_memory(shape) + exact_values;
}

std::size_t planning_memory(const ReplayShape& shape) {
  constexpr std::size_t kCandidates = 1700;  // lists, prices and the schedule, per token
  return shape.num_tokens * kCandidates;
}

std::size_t table_memory(std::size_t rows) {
  constexpr std::size_t kBytesPerRow = 10 << 10;
  return rows * kBytesPerRow;
}

std::size_t own_memory() {
  constexpr std::size_t kUntouched = 5 << 20;
  return resident_bytes() + kUntouched;
}

std::size_t resident_bytes() {
  std::size_t size = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace kvsim
