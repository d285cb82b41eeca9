#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "traces/synth/random_stream.h"
#include "traces/synth/synth.h"

namespace kvsim {

/// Token ids: a random segment of distinct tokens, repeated with the period of the options.
std::vector<std::int32_t> synth_text(const SynthOptions& options);

/// The learned sink logit of a query head: normal of deviation 1 around SynthOptions::sink_logit.
float synth_sink(const SynthOptions& options, int layer, int query_head);

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
  /// The columns of the basis that a component uses.
  struct Columns {
    int first = 0;
    int count = 0;
  };

  void assign_columns();
  auto columns(Columns range) const { return basis_.middleCols(range.first, range.count); }
  RandomStream stream(Part part, int query_head = 0) const;

  /// The components that keys and queries both have: the shared local band and `noise` of their
  /// own.
  Eigen::MatrixXd common_components(RandomStream noise) const;
  /// [tokens, head_dim]: per token, the direction of the heavy hitters at that time.
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
