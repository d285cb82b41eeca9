#include "traces/layer_cache.h"

#include "traces/integrity/digest_attribute.h"
#include "traces/layer_data.h"

namespace kvsim {
namespace {

// Layers. Selections may be as large as queries and keys.
constexpr std::size_t kMostSquares = 16;
constexpr std::size_t kMostSelections = 2;

}  // namespace

std::vector<double> LayerCache::residual_square(const std::string& sequence, int layer,
                                                const HeadDataset& residual) {
  const std::lock_guard guard(residual_mutex_);
  for (const ResidualSquare& kept : residual_squares_) {
    if (kept.sequence == sequence && kept.layer == layer) return kept.squares;
  }
  residual_squares_.push_front({sequence, layer, residual_squares(residual)});
  if (residual_squares_.size() > kMostSquares) residual_squares_.pop_back();
  return residual_squares_.front().squares;
}

std::shared_ptr<const SelectedTokens> LayerCache::selection(
    const std::string& sequence, int layer,
    const std::function<std::shared_ptr<const SelectedTokens>()>& read) {
  const std::lock_guard guard(selection_mutex_);
  for (const Selected& kept : selections_) {
    if (kept.sequence == sequence && kept.layer == layer) return kept.selection;
  }
  selections_.push_front({sequence, layer, read()});
  if (selections_.size() > kMostSelections) selections_.pop_back();
  return selections_.front().selection;
}

void LayerCache::check_projection(int layer, const HeadDataset& projection) {
  if (projection.digests().empty()) return;
  const std::lock_guard guard(projection_mutex_);
  if (checked_projections_.count(layer) > 0) return;
  check_digest(projection.digests(), 0, projection.digest_of(0), projection.place());
  checked_projections_.insert(layer);
}

}  // namespace kvsim
