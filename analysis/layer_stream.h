#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "sim/attention/attention.h"
#include "traces/trace.h"

namespace kvsim {

/// The residual stream at one layer of a sequence, one number per token t. With r_t the layer's
/// input, a_t what its attention adds (all heads times W_O; a bias of W_O is in no trace) and
/// x_t = r_t + a_t, the MLP block F takes x_t, and F(x_t) is the input of the next layer.
struct LayerStream {
  std::vector<double> residual;   ///< |r_t|
  std::vector<double> attention;  ///< |a_t|
  std::vector<double> input;      ///< |x_t|

  // Empty where the trace lacks the next layer's input.
  std::vector<double> added;             ///< |F(x_t) - x_t|
  std::vector<double> cosine;            ///< of x_t and F(x_t)
  std::vector<double> attention_cosine;  ///< of a_t and F(x_t)
  std::vector<double> next_cosine;       ///< of F(x_t) and r_{t+1}; one fewer

  /// From r_t, a_t and F(x_t), [n, hidden] each, the last maybe without rows. The cosine with a
  /// zero vector is 0.
  LayerStream(const Matrix& r, const Matrix& a, const Matrix& f);
};

/// What the attention of a layer adds to the residual stream, [n, hidden]: the heads of all units
/// times their W_O. The trace must have output_projection and all heads of the layer.
Matrix attention_added(const Trace& trace, const std::string& sequence, int layer,
                       const Backend& backend);

/// The streams of a trace, each computed when it is first asked for. Thread-safe.
class LayerStreams {
 public:
  LayerStreams(const Trace& trace, const Backend& backend) : trace_(trace), backend_(backend) {}

  /// The trace must have residual and output_projection of the layer, and all its heads.
  const LayerStream& at(const std::string& sequence, int layer);

 private:
  struct Place {
    std::once_flag once;
    std::unique_ptr<LayerStream> stream;
  };

  const Trace& trace_;
  const Backend& backend_;
  std::mutex mutex_;
  std::map<std::pair<std::string, int>, Place> places_;
};

}  // namespace kvsim
