#pragma once

#include <memory>

#include "policies/interface/store.h"

namespace kvsim {

/// CaM (Zhang, Du, Luo, Zhong, Zhang, Liu and Ji, "CaM: Cache Merging for Memory-efficient LLMs
/// Inference", ICML 2024), Algorithm 1 and Eq. 14. Of an evicted token i the value is added to
/// those of the next m tokens that are held, v[j] += v[i] / m, with the probability
/// min(1, A[i] / mean(A[j])), where A[j] is the attention that token j has received so far. Keys
/// stay. `tokens` is the largest m; m is smaller where fewer held tokens follow, and without one
/// the value is lost. The coins depend on the seed, the token and the step.
std::unique_ptr<Store> make_cam_store(const StoreContext& context, int tokens);

/// The probability of the merge, from A[i] and the mean of A[j]; 0 if both are 0.
double cam_probability(double evicted, double mean_of_followers);

}  // namespace kvsim
