#pragma once

namespace kvsim {

class Spec;

/// What a replay holds its caches against.
enum class Reference {
  full,  ///< the full attention, which takes O(n²) per unit
  none   ///< nothing: what leaves and when is all that is found out
};

/// What a replay measures.
struct Measuring {
  Reference reference = Reference::full;
  int every = 1;  ///< output errors are those of the last step and of every so many before it

  bool has_reference() const { return reference == Reference::full; }

  /// Whether the output error of a step is taken, in a text of so many tokens.
  bool takes_error(int step, int num_tokens) const { return (num_tokens - 1 - step) % every == 0; }
};

/// Whether the policy, or what it is combined with, needs the full attention.
bool needs_reference(const Spec& policy);

/// Throws UsageError if there is no reference and the policy, or what it is combined with, needs
/// the full attention.
void check_reference(const Spec& policy, const Measuring& measuring);

}  // namespace kvsim
