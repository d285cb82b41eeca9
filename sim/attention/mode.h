#pragma once

namespace kvsim {

/// The protocol of a replay.
enum class Mode {
  stream,  ///< every step evicts; every step is measured
  prefill  ///< the prompt attends in full, then evicts once; later steps are measured
};

}  // namespace kvsim
