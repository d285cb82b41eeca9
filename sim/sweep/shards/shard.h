#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvsim {

/// One share of a command's work: `--shard 3/16` is {3, 16}.
struct Shard {
  int index = 1;  ///< 1 .. count
  int count = 1;

  bool is_all() const { return count == 1; }
  bool operator==(const Shard&) const = default;
};

/// The shard that "3/16" names. Throws UsageError, which names `option`, for anything else.
Shard parse_shard(const std::string& text, const std::string& option = "--shard");

/// "3/16".
std::string shard_name(const Shard& shard);

/// All that a command asks for, of which a shard is a share.
struct WholeWork {
  std::size_t units = 0;
  std::size_t replays = 0;
  double share = 1;  ///< of the estimated cost, that of the shard
};

/// Partitions items of these costs among `count` shards, the most expensive first, each to the
/// shard that has the least so far: no shard exceeds the mean by more than one item. Returns the
/// index of each item's shard, 1 .. count. Depends on the costs alone, so it is the same on every
/// machine.
std::vector<int> partition(const std::vector<std::int64_t>& costs, int count);

}  // namespace kvsim
