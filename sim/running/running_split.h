#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sim/replay/replay.h"
#include "sim/running/model_shape.h"
#include "sim/running/running_unit.h"

namespace kvsim {

/// The tokens of a running text; 0: not known.
struct RunningLength {
  int prompt = 0;
  int tokens = 0;
};

/// The budget of each unit, as JobLoader splits that of a trace. A split that is measured needs the
/// prompt in the units; any other needs the layers alone. Throws DataError for a file of budgets
/// that cannot be read or is of another model, and UsageError where it needs a length that is not
/// known: `duo` that of the text, shares per compression ratio that of the prompt or text.
std::vector<int> split_of(const Configuration& configuration, const ModelShape& shape,
                          std::span<const std::unique_ptr<RunningUnit>> units,
                          const RunningLength& length, const Protocol& protocol);

/// Throws DataError if the policy's trained scorers, if it has some, are of another model.
void check_scorers(const Spec& policy, const ModelShape& shape);

}  // namespace kvsim
