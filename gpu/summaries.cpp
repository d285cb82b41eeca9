#include "gpu/summaries.h"

#include <algorithm>

#include "gpu/batch_memory.h"

namespace kvsim::gpu {
namespace {

// The full attention of one unit on a device, one block of steps at a time.
class UnitBatch {
 public:
  UnitBatch(Device& device, const Unit& unit, Summary summary)
      : device_(device),
        memory_(device, {.shape = shape_of(unit), .num_units = 1, .summary = summary}) {
    const UnitTask task = task_of(unit);
    const Unit* const recorded = &unit;
    memory_.upload_units({&task, 1}, {&recorded, 1});
  }

  // Runs the kernel on every block.
  void summarise(Kernel kernel) {
    Batch& of = batch();
    const int num_tokens = of.shape.num_tokens;
    for (of.first_step = 0; of.first_step < num_tokens; of.first_step += kSteps) {
      of.num_steps = std::min(kSteps, num_tokens - of.first_step);
      device_.multiply_keys(of);
      device_.run(Kernel::weigh_row, of);
      device_.run(kernel, of);
    }
  }

  Batch& batch() { return memory_.batch(); }
  BatchMemory& memory() { return memory_; }
  std::size_t num_tokens() { return static_cast<std::size_t>(batch().shape.num_tokens); }
  std::size_t num_heads() { return static_cast<std::size_t>(batch().shape.group_size); }

 private:
  Device& device_;
  BatchMemory memory_;
};

}  // namespace

std::vector<std::int64_t> count_small(Device& device, const Unit& unit, double threshold) {
  UnitBatch of_unit(device, unit, Summary::small);
  of_unit.batch().small_threshold = threshold;
  of_unit.summarise(Kernel::count_small);
  const std::size_t rows = of_unit.num_tokens() * of_unit.num_heads();
  const auto counts = of_unit.memory().download(of_unit.batch().num_small, rows);
  std::vector<std::int64_t> sums(of_unit.num_heads(), 0);
  for (std::size_t row = 0; row < rows; ++row) sums[row % sums.size()] += counts[row];
  return sums;
}

std::vector<std::vector<PivotalSteps>> pivotal_steps(Device& device, const Unit& unit,
                                                     const PivotalThreshold& threshold) {
  UnitBatch of_unit(device, unit, Summary::pivotal);
  of_unit.batch().pivotal_threshold = threshold;
  of_unit.summarise(Kernel::note_pivotal);
  std::vector<std::vector<PivotalSteps>> steps;
  for (std::size_t head = 0; head < of_unit.num_heads(); ++head) {
    const PivotalSteps* of_head = of_unit.batch().pivotal_steps + head * of_unit.num_tokens();
    steps.push_back(of_unit.memory().download(of_head, of_unit.num_tokens()));
  }
  return steps;
}

FutureSums future_sums(Device& device, const Unit& unit, int first_measured) {
  UnitBatch of_unit(device, unit, Summary::future);
  of_unit.batch().first_measured = first_measured;
  of_unit.summarise(Kernel::average_heads);
  device.run(Kernel::sum_remaining, of_unit.batch());
  const std::size_t entries = triangle_row(unit.num_tokens());
  return {of_unit.memory().download(of_unit.batch().mean_attention, entries),
          of_unit.memory().download(of_unit.batch().remaining, entries)};
}

}  // namespace kvsim::gpu
