#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "traces/head_dataset.h"
#include "traces/selected_tokens.h"

namespace kvsim {

/// What the units of a layer share and mostly want one after the other, so that it is read once.
/// For many threads, which do not hold the Hdf5Lock.
class LayerCache {
 public:
  /// The squared norms of a layer's residual stream, of which the last ones are kept. Throws
  /// DataError.
  std::vector<double> residual_square(const std::string& sequence, int layer,
                                      const HeadDataset& residual);

  /// What a layer's steps select, of which the last ones are kept; `read` reads it.
  std::shared_ptr<const SelectedTokens> selection(
      const std::string& sequence, int layer,
      const std::function<std::shared_ptr<const SelectedTokens>()>& read);

  /// Reads a layer's output projection as a whole, the first time that a unit needs a part of it.
  /// Throws DataError if its digest is another than the recorded one.
  void check_projection(int layer, const HeadDataset& projection);

 private:
  struct ResidualSquare {
    std::string sequence;
    int layer;
    std::vector<double> squares;
  };

  struct Selected {
    std::string sequence;
    int layer;
    std::shared_ptr<const SelectedTokens> selection;
  };

  std::deque<Selected> selections_;  ///< those read last, the newest in front
  std::mutex selection_mutex_;
  std::deque<ResidualSquare> residual_squares_;  ///< those read last, the newest in front
  std::mutex residual_mutex_;
  std::set<int> checked_projections_;  ///< layers
  std::mutex projection_mutex_;
};

}  // namespace kvsim
