#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sim/replay/replay.h"
#include "sim/replay/unit_record.h"
#include "sim/running/running_unit.h"

namespace kvsim {

/// Where the outputs of a layer's new steps go: [steps, query heads, value_dim].
struct OutputRows {
  float* numbers = nullptr;
  int first_step = 0;  ///< of the first row
  int num_heads = 1;   ///< query heads of the layer
  int value_dim = 1;

  float* of(int step, int head) const {
    const std::size_t row = static_cast<std::size_t>(step - first_step) * num_heads + head;
    return numbers + row * value_dim;
  }
};

/// The caches of one configuration in a running model, on the units that it decides for together:
/// one head, the heads of a layer, or all layers.
class RunningReplay {
 public:
  virtual ~RunningReplay() = default;

  /// Runs a step of a layer, whose units have computed a block that includes it. Writes the outputs
  /// of its units unless `outputs` is null.
  virtual void run(std::size_t layer, int step, const OutputRows* outputs) = 0;

  /// The use of the cache of one of a layer's units after `num_tokens` steps.
  virtual CacheUsage usage(std::size_t layer, std::size_t index, int num_tokens) const = 0;
};

/// One configuration on `units`, which it decides for together, ordered by layer. `kinds` are those
/// of the tokens so far, if the policy reads them, and have to outlive the replay.
std::unique_ptr<RunningReplay> make_running_replay(const Configuration& configuration,
                                                   std::span<RunningUnit* const> units,
                                                   const ReplayOptions& options,
                                                   const std::vector<TokenKind>* kinds);

}  // namespace kvsim
