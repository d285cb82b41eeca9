#pragma once

#include <span>
#include <vector>

#include "sim/core/token_set.h"

namespace kvsim {

/// A set reached from another one, or from the empty set: parent -1.
struct TreeEdge {
  int child;
  int parent;
};

/// The cheapest way to reach every set from the empty one, going from any set to any other at the
/// price of the tokens by which they differ: a minimum spanning tree (Prim's algorithm). Children
/// follow their parents. `roots` are there to begin with and have no edge. Only tokens below
/// `num_tokens` count.
std::vector<TreeEdge> spanning_tree(std::span<const TokenSet> sets, std::span<const int> roots,
                                    int num_tokens);

}  // namespace kvsim
