#include "policies/merging/cam_store.h"

#include <algorithm>

#include "policies/merging/merging_store.h"
#include "policies/parts/coins.h"

namespace kvsim {
namespace {

class CamStore final : public MergingStore {
 public:
  CamStore(const StoreContext& context, int tokens)
      : MergingStore(context), tokens_(tokens), coins_(context.seed, "cam") {}

 private:
  void merge(std::span<const std::int32_t> evicted, const StoredStep& step) override {
    for (const std::int32_t token : evicted) {
      const auto next = std::upper_bound(step.held.begin(), step.held.end(), token);
      const auto count = std::min<std::ptrdiff_t>(tokens_, step.held.end() - next);
      if (count == 0) continue;
      const std::span<const std::int32_t> followers(next, next + count);
      double mean = 0;
      for (const std::int32_t follower : followers) mean += attention(follower);
      mean /= static_cast<double>(count);
      const double probability = cam_probability(attention(token), mean);
      if (!coins_.flip(token, static_cast<std::size_t>(step.index), probability)) continue;
      for (const std::int32_t follower : followers) add(token, follower, count);
    }
  }

  void add(std::int32_t token, std::int32_t follower, std::ptrdiff_t count) {
    const std::span<const float> from = value_row(token);
    const std::span<float> to = value_row(follower);
    for (std::size_t d = 0; d < to.size(); ++d) to[d] += from[d] / static_cast<float>(count);
  }

  int tokens_;
  Coins coins_;
};

}  // namespace

double cam_probability(double evicted, double mean_of_followers) {
  if (evicted == 0) return 0;
  return mean_of_followers > 0 ? std::min(1.0, evicted / mean_of_followers) : 1;
}

std::unique_ptr<Store> make_cam_store(const StoreContext& context, int tokens) {
  return std::make_unique<CamStore>(context, tokens);
}

}  // namespace kvsim
