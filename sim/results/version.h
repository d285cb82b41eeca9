#pragma once

#include <string>

namespace kvsim {

/// The release and the source revision, as in "0.2.0+g1a2b3c4.dirty": the column kvsim_version.
std::string version();

/// The version of the engine's numbers, a part of every policy_code. Raise it when a change to the
/// engine alters the number in some row, and name it in CHANGELOG.md: rows of before are then made
/// again. Changes to a policy alone need nothing, its source is part of its policy_code.
inline constexpr int kResultsVersion = 3;

}  // namespace kvsim
