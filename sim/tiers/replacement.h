#pragma once

#include <string>
#include <vector>

namespace kvsim {

/// Which page leaves the device for one that is fetched. See README.md for the details of each.
enum class Replacement {
  lru,    ///< the least recently attended to
  fifo,   ///< the one that came first
  clock,  ///< the next without a reference, as the hand goes round
  lfu,    ///< the least often chosen
  mass,   ///< the one with the least attention, accumulated over the steps
  belady  ///< the one that is chosen again last: MIN, which no other can beat
};

/// "lru", "belady".
std::string name_of(Replacement replacement);

/// A list separated by commas; each once, in the order of the enumeration. "all" stands for all.
/// Throws UsageError, which names the nearest one, starting with `option`.
std::vector<Replacement> parse_replacements(const std::string& text, const std::string& option);

}  // namespace kvsim
