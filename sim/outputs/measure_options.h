#pragma once

namespace kvsim {

/// What a replay compares its caches with.
enum class Reference {
  full,    ///< the full attention at every step; takes O(n²) time per unit
  sample,  ///< the full attention at some steps, O(n) each; see MeasuredSteps
  none     ///< nothing: the replay only records evictions
};

/// What a replay measures.
struct MeasureOptions {
  Reference reference = Reference::full;
  int error_stride = 1;  ///< steps between measured output errors, counted back from the last step
  int samples = 0;       ///< of Reference::sample: the number of measured steps

  /// Whether the full attention of every step is there.
  bool has_reference() const { return reference == Reference::full; }

  /// Whether something is compared with the full attention.
  bool measures() const { return reference != Reference::none; }
};

}  // namespace kvsim
