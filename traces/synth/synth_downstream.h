#pragma once

#include <span>
#include <vector>

#include "traces/synth/synth.h"

namespace kvsim {

/// What follows the heads of a synthetic layer (construction: traces/README.md).
class SynthDownstream {
 public:
  /// Keeps a reference to the options. `value_dim`: of a head.
  SynthDownstream(const SynthOptions& options, int value_dim, int layer);

  Matrix projection() const;  ///< [query heads * value_dim, hidden]

  /// What is made of a layer as a whole, [tokens, width], unless its width is 0.
  struct Rows {
    Dataset dataset;
    int SynthOptions::*width;
    Matrix (*make)(const SynthOptions& options, int layer);
  };
  static std::span<const Rows> all_rows();
  Matrix rows(Dataset dataset) const;  ///< one of them

  std::vector<std::vector<Matrix>> gradients()
      const;  ///< [samples][query heads], [tokens, value_dim]

 private:
  const SynthOptions& options_;
  int value_dim_;
  int layer_;
};

}  // namespace kvsim
