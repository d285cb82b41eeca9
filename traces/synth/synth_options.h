#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "traces/synth/synth.h"

namespace kvsim {

/// The declaration of an option that is a number, from which its check, `kvsim synth --help` and
/// kvsim.synth are derived.
struct SynthOption {
  std::string_view name;  ///< of the member; on the command line with '-' for '_'
  std::variant<int SynthOptions::*, double SynthOptions::*> field;
  double lowest;
  double highest;
  std::string_view help;
  int SynthOptions::*most = nullptr;  ///< the member that the value must not exceed, if any
};

/// All of them, but sink_logit, which may be nothing.
std::span<const SynthOption> synth_options();

/// Throws std::invalid_argument, naming the option, for a value out of range.
void check_options(const SynthOptions& options);

}  // namespace kvsim
