#include "sim/attention/attention_blocks.h"

#include <algorithm>

#include "sim/base/interrupt.h"
#include "sim/kernels/attention_kernels.h"

namespace kvsim {

void for_each_block(const Unit& unit, int num_steps, const Backend& backend,
                    const std::function<void(const AttentionBlock&)>& visit) {
  const auto pass = backend.attend(unit);
  AttentionBlock block;
  for (int first = 0; first < num_steps; first += kBlockSteps) {
    poll_interrupt();
    pass->compute(first, std::min(kBlockSteps, num_steps - first), Outputs::required, block);
    visit(block);
  }
}

}  // namespace kvsim
