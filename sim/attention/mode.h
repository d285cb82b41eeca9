#pragma once

namespace kvsim {

/// The protocol of a replay.
enum class Mode {
  stream,  ///< every step evicts; every step is measured
  prefill  ///< the prompt attends in full, then evicts once; later steps are measured
};

/// The first step that is measured: the one after the prompt, or step 0 in stream mode.
constexpr int first_measured(Mode mode, int prompt_length) {
  return mode == Mode::prefill ? prompt_length : 0;
}

}  // namespace kvsim
