#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "traces/random_stream.h"
#include "traces/synth.h"

namespace kvsim {

/// Token ids: a random segment of distinct tokens, repeated with the period of the options.
std::vector<std::int32_t> synth_text(const SynthOptions& options);

/// One synthetic KV head and the query heads that share it (construction: traces/README.md).
/// The logit of a query and a key is their product over sqrt(head_dim). Keeps references to its
/// arguments.
class SynthHead {
 public:
  SynthHead(const SynthOptions& options, const std::vector<std::int32_t>& text, int layer,
            int kv_head);

  Matrix key() const;                  ///< [tokens, head_dim]
  Matrix value(int dim) const;         ///< [tokens, dim]
  Matrix query(int query_head) const;  ///< [tokens, head_dim]; `query_head` counts in the layer

 private:
  enum class Part : std::uint64_t;
  /// The columns of the basis in which a component lives.
  struct Columns {
    int first = 0;
    int count = 0;
  };

  void lay_out_columns();
  auto columns(Columns range) const { return basis_.middleCols(range.first, range.count); }
  RandomStream stream(Part part, int query_head = 0) const;

  /// What keys and queries have alike: the local band and, each its own, the noise.
  Eigen::MatrixXd common_components(RandomStream noise) const;
  /// The directions, one per token, in which the heavy hitters of that time lie.
  Eigen::MatrixXd heavy_directions() const;

  const SynthOptions& options_;
  const std::vector<std::int32_t>& text_;
  int layer_;
  int kv_head_;
  Columns sink_, heavy_, local_, retrieval_, noise_;
  Eigen::MatrixXd basis_;      ///< [head_dim, head_dim], orthonormal columns
  Eigen::MatrixXd position_;   ///< [tokens, local columns], unit rows
  Eigen::MatrixXd embedding_;  ///< [distinct tokens, retrieval columns], unit rows
};

}  // namespace kvsim
