#include "policies/merging/merging_store.h"

#include <algorithm>
#include <iterator>

namespace kvsim {

// A token can leave a layer without a step that attends to it for the last time: where a policy for
// the whole model evicts it in an earlier layer. So what left is what was held before.
void MergingStore::settle(const StoredStep& step) {
  Store::settle(step);
  attention_.resize(static_cast<std::size_t>(step.index) + 1, 0);
  for (std::size_t slot = 0; slot < step.attended.size(); ++slot) {
    attention(step.attended[slot]) += step.attention[slot];
  }
  observe(step);
  held_.push_back(step.index);
  std::vector<std::int32_t> evicted;
  std::set_difference(held_.begin(), held_.end(), step.held.begin(), step.held.end(),
                      std::back_inserter(evicted));
  if (!evicted.empty() && !step.held.empty()) merge(evicted, step);
  held_.assign(step.held.begin(), step.held.end());
}

}  // namespace kvsim
