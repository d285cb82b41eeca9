#pragma once

namespace kvsim {

/// What a replay compares its caches with.
enum class Reference {
  full,  ///< the full attention; takes O(n²) time per unit
  none   ///< nothing: the replay only records evictions
};

/// What a replay measures.
struct MeasureOptions {
  Reference reference = Reference::full;
  int error_stride = 1;  ///< steps between measured output errors, counted back from the last step

  bool has_reference() const { return reference == Reference::full; }

  /// Whether the output error of `step` is measured.
  bool takes_error(int step, int num_tokens) const {
    return (num_tokens - 1 - step) % error_stride == 0;
  }
};

}  // namespace kvsim
