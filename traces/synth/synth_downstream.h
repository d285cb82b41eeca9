#pragma once

#include <vector>

#include "traces/synth/synth.h"

namespace kvsim {

/// What stands behind the heads of a synthetic layer (construction: traces/README.md).
class SynthDownstream {
 public:
  /// Keeps a reference to the options. `value_dim`: of a head.
  SynthDownstream(const SynthOptions& options, int value_dim, int layer);

  Matrix projection() const;  ///< [query heads * value_dim, hidden]

  Matrix residual() const;  ///< [tokens, hidden]

  /// [tokens, MLP width]: the neuron of rank r = 1, 2, .. is active at a token with probability
  /// 1 / r, and then gives 1 to 2, else 0. Neurons stand in random order.
  Matrix mlp_activation() const;

  /// What is made of a layer as a whole, [tokens, width], unless its width is 0.
  struct Rows {
    Dataset dataset;
    int SynthOptions::*width;
    Matrix (SynthDownstream::*make)() const;
  };
  static std::vector<Rows> all_rows();

  std::vector<std::vector<Matrix>> gradients()
      const;  ///< [samples][query heads], [tokens, value_dim]

 private:
  const SynthOptions& options_;
  int value_dim_;
  int layer_;
};

}  // namespace kvsim
