#pragma once

#include <memory>
#include <numeric>
#include <vector>

#include "oracle/lookahead/upcoming_outputs.h"

namespace kvsim {

/// The product of two vectors.
inline double product(const double* a, const double* b, std::size_t count) {
  return std::inner_product(a, a + count, b, 0.0);
}

/// What the outputs of steps to come lose without each of the tokens that a cache of one unit
/// holds. The tokens are those of `held` in all calls.
class EvictionCost {
 public:
  virtual ~EvictionCost() = default;

  /// Adds the steps of a block from row `first_row` on. Their tokens are in the slots.
  virtual void enter(const HeldTokens& held, const AttentionBlock& block, int first_row) = 0;

  /// The token in `slot` leaves the cache before steps `first` .. `last`, which are all that have
  /// entered and are still to come. To be called before HeldTokens::remove().
  virtual void leave(const HeldTokens& held, std::size_t slot, int first, int last) = 0;

  /// Adds to change[slot] by how much the loss of steps `first` .. `last` grows without its token.
  /// `change` has the capacity of the slots.
  virtual void add_changes(const HeldTokens& held, int first, int last, double* change) = 0;

  /// The loss of steps `first` .. `last` with all tokens that the cache holds.
  virtual double loss(int first, int last) const = 0;

  /// A copy, for another cache that holds the same. Null if caches cannot be valued apart from the
  /// others of the layer.
  virtual std::unique_ptr<EvictionCost> copy() const = 0;
};

/// W_O of a unit's query heads in double precision, and what follows from it. All caches of the
/// unit share it.
struct HeadProjections {
  explicit HeadProjections(const Unit& unit);

  DoubleRows of(std::size_t head) const { return {projection[head].data(), dims, hidden}; }
  /// W_a W_bᵀ of heads a and b.
  DoubleRows between(std::size_t a, std::size_t b) const {
    return {product[a * projection.size() + b].data(), dims, stride};
  }

  std::size_t dims;
  std::size_t stride;                           ///< padded dims
  std::size_t hidden;                           ///< padded
  std::vector<std::vector<double>> projection;  ///< per head: [dims, hidden]
  std::vector<std::vector<double>> product;     ///< per pair of heads: [dims, stride]
};

/// Costs hold `steps` steps, a multiple of kBlockSteps.

/// cost=error: the sum over steps and query heads of |ô - o|².
std::unique_ptr<EvictionCost> make_error_cost(const Unit& unit, const HeldTokens& held,
                                              std::size_t steps);

/// cost=predicted: the sum over steps, query heads and samples of <g, ô - o>², g being the recorded
/// gradients. `unit` has to outlive it.
std::unique_ptr<EvictionCost> make_predicted_cost(const Unit& unit, const HeldTokens& held,
                                                  std::size_t steps);

/// cost=projected: the sum over steps of |Σ_h (ô_h - o_h) W_O,h|² over all query heads h of the
/// layer. `layer_error` [steps, hidden] is that vector, which the caches of the layer's units share
/// and keep up to date. It is 0 for a step that none of them has entered.
std::unique_ptr<EvictionCost> make_projected_cost(
    std::shared_ptr<const HeadProjections> projections, const HeldTokens& held, std::size_t steps,
    std::shared_ptr<StepsBySlots> layer_error);

}  // namespace kvsim
