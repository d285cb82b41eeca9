#pragma once

#include <span>
#include <vector>

#include "sim/cache/token_set.h"

namespace kvsim {

/// An edge of a tree of token sets: indices of sets; parent -1 is the empty set.
struct TreeEdge {
  int child;
  int parent;
};

/// A minimum spanning tree (Prim's algorithm) over the sets and the empty set. The length of an
/// edge is the number of tokens below `num_tokens` that are in just one of its sets. Edges are
/// sorted: parents before children. `roots` belong to the tree from the start and are no edge's
/// child.
///
/// With `weights`, what the sum over each set amounts to, an edge is longer by half of its child's
/// tokens where a set between it and the root weighs more than 16 times as much as the child: the
/// rounding of that sum would be too much for the child's. The tree is then near the minimum.
std::vector<TreeEdge> spanning_tree(std::span<const TokenSet> sets, std::span<const int> roots,
                                    int num_tokens, std::span<const double> weights = {});

}  // namespace kvsim
