#include "sim/outputs/tree_sums.h"

#include <algorithm>

namespace kvsim {
namespace {

// What two edges have in common is worth a sum of its own from here on: storing it and adding it
// twice takes as long as some four terms, and finding it takes time too.
constexpr int kFewestInCommon = 12;

constexpr std::size_t kTileSize = std::size_t{TreeSums::kMostDims} * kBlockSteps;

}  // namespace

void TreeSums::link(std::span<const TokenSet> sets, std::span<const int> roots, int num_tokens,
                    std::span<const double> weights) {
  edges_ = spanning_tree(sets, roots, num_tokens, weights);
  changes_.resize(2 * edges_.size());
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    const TokenSet& child = sets[edges_[i].child];
    TokenSet& added = changes_[2 * i];
    TokenSet& removed = changes_[2 * i + 1];
    added = child;
    removed = edges_[i].parent < 0 ? child : sets[edges_[i].parent];
    if (edges_[i].parent >= 0) added.erase(removed);
    removed.erase(child);
  }
  common_ = take_common_tokens(changes_, kFewestInCommon, num_tokens);
  zeros_.resize(kTileSize);
  sums_.resize(std::max(sums_.size(), sets.size()));
  for (AlignedVector<double>& sum : sums_) sum.resize(kTileSize);
  common_sums_.resize(std::max(common_sums_.size(), common_.size()));
  for (AlignedVector<float>& sum : common_sums_) sum.resize(kTileSize);
  common_terms_.resize(common_sums_.size());
  terms_.resize(std::max(terms_.size(), edges_.size()));
  list_terms(num_tokens);
}

void TreeSums::list_terms(int num_tokens) {
  const auto list = [&](const TokenSet& tokens, std::vector<std::int32_t>& listed) {
    listed.resize(static_cast<std::size_t>(count_common(tokens.words(), tokens.words())));
    std::int32_t* end = listed.data();
    for_each_token_of(tokens, num_tokens, true, [&](std::int32_t token) { *end++ = token; });
    listed.resize(static_cast<std::size_t>(end - listed.data()));
  };
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    list(changes_[2 * i], terms_[i].added);
    list(changes_[2 * i + 1], terms_[i].removed);
    terms_[i].added_sums.clear();
    terms_[i].removed_sums.clear();
  }
  for (std::size_t i = 0; i < common_.size(); ++i) {
    list(common_[i].tokens, common_terms_[i]);
    for (const int change : {common_[i].first, common_[i].second}) {
      EdgeTerms& edge = terms_[change / 2];
      (change % 2 == 0 ? edge.added_sums : edge.removed_sums).push_back(common_sums_[i].data());
    }
  }
}

void TreeSums::sum(const WeightedValues& of, int first_dim, int dims) {
  for (std::size_t i = 0; i < common_.size(); ++i) {
    sum_products(of, common_terms_[i], first_dim, dims, common_sums_[i].data());
  }
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    const auto [child, parent] = edges_[i];
    const EdgeTerms& edge = terms_[i];
    add_products(of, {edge.added, edge.removed, edge.added_sums, edge.removed_sums}, first_dim,
                 dims, parent < 0 ? zeros_.data() : rows(parent), rows(child));
  }
}

}  // namespace kvsim
