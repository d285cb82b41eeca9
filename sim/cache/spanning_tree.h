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
std::vector<TreeEdge> spanning_tree(std::span<const TokenSet> sets, std::span<const int> roots,
                                    int num_tokens);

}  // namespace kvsim
