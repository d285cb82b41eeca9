#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "traces/synth/synth.h"
#include "traces/trace_layout.h"

namespace kvsim {

/// The attention of a layer, as the file stores it.
struct SynthLayer {
  std::vector<Matrix> query;   ///< per query head, [tokens, head_dim]
  std::vector<Matrix> key;     ///< per KV head, [tokens, head_dim]
  std::vector<Matrix> value;   ///< per KV head, [tokens, value_dim]
  std::vector<Matrix> output;  ///< per query head, [tokens, value_dim]; empty without outputs
  std::vector<float> sinks;    ///< logits of learned sinks, per query head; empty: none
  std::optional<int> chunk;    ///< tokens of an attention chunk; nothing: one chunk
};

/// Makes the heads of a layer, as many KV heads at once as the options have threads. Which thread
/// makes a head does not change it. `heads_done` is called on the calling thread, with the number
/// of query heads that are finished and a part of one; what it throws ends the work.
SynthLayer synth_layer(const SynthOptions& options, const TraceHeader& header,
                       const std::vector<std::int32_t>& text, int layer,
                       const std::function<void(double)>& heads_done);

}  // namespace kvsim
