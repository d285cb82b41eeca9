#include "traces/layer_cache.h"

#include "traces/integrity/digest_attribute.h"
#include "traces/layer_data.h"

namespace kvsim {

std::vector<double> LayerCache::residual_square(const std::string& sequence, int layer,
                                                const HeadDataset& residual) {
  constexpr std::size_t kMostKept = 16;
  const std::lock_guard guard(residual_mutex_);
  for (const ResidualSquare& kept : residual_squares_) {
    if (kept.sequence == sequence && kept.layer == layer) return kept.squares;
  }
  residual_squares_.push_front({sequence, layer, residual_squares(residual)});
  if (residual_squares_.size() > kMostKept) residual_squares_.pop_back();
  return residual_squares_.front().squares;
}

void LayerCache::check_projection(int layer, const HeadDataset& projection) {
  if (projection.digests().empty()) return;
  const std::lock_guard guard(projection_mutex_);
  if (checked_projections_.count(layer) > 0) return;
  check_digest(projection.digests(), 0, projection.digest_of(0), projection.place());
  checked_projections_.insert(layer);
}

}  // namespace kvsim
