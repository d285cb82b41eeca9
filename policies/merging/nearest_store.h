#pragma once

#include <memory>

#include "policies/interface/store.h"

namespace kvsim {

/// How an evicted token counts in the mean that it joins.
enum class MergeWeight {
  count,      ///< each token by the number of tokens that it stands for
  attention,  ///< by the attention that these received so far; if that is 0 of all, by number
  cosine      ///< D2O's program: (x[c] + sum of u[i] x[i]) / (1 + number), u[i] the cosine
};

struct NearestMerge {
  MergeWeight weight = MergeWeight::count;
  bool has_threshold = false;  ///< D2O's: those less alike than the moving average are lost
  bool has_mass = true;        ///< an entry that stands for n tokens has ln n added to its logit
};

/// Bytes per held token of what makes an entry out of several tokens: its number.
std::size_t weight_bytes(const NearestMerge& settings);

/// An evicted token joins the held token whose key has the largest cosine with its own, the first
/// of equals, as in D2O (Wan et al., "D2O: Dynamic Discriminative Operations for Efficient
/// Long-Context Inference of Large Language Models", ICLR 2025): key and value become means. Tokens
/// that join the same one at the same step do so together. An entry that is evicted takes the
/// number of its tokens and their attention with it.
///
/// Threshold, from D2O's program: T is the mean of the largest cosines of what is evicted first,
/// then (T + the mean of these) / 2 at each later step that evicts; what is below T is lost.
std::unique_ptr<Store> make_nearest_store(const StoreContext& context,
                                          const NearestMerge& settings);

}  // namespace kvsim
