#pragma once

#include <vector>

#include "policies/interface/policy_info.h"

namespace kvsim {

/// The settings of h2o that reproduce the six programs published by the authors of H2O and three
/// programs of others. What each text says of sets that agree is what tests/conformance proves.
inline std::vector<Preset> h2o_presets() {
  return {
      {"masked", "",
       "the authors' masked generation, utils_hh; with --mode prefill, n = ratio * prompt rounded "
       "down is a budget of 2n-1 with recent=n-1; its off-by-one, which hides a token for the step "
       "in which it leaves the recent window, is left out: 93% of its sets at a ratio of 0.2"},
      {"lm-eval", "score=full,overlap=yes",
       "the authors' lm-eval program for OPT and GPT-NeoX, local; n = ratio * sequence, for heavy "
       "and recent tokens each, is a budget of 2n-1, always odd: 100% of its sets"},
      {.name = "lm-eval-llama",
       .settings = "",
       .reproduces = "the authors' lm-eval program for LLaMA, global: it sums over all queries of "
                     "the sequence, later ones included, as the oracle h2o-global does",
       .acausal = true},
      {"real-drop", "",
       "the authors' real-drop program; hh_size = recent_size = n is a budget of 2n, other sizes "
       "are their sum with recent=N: 100% of its sets; grouped queries, which it cannot do, are "
       "averaged"},
      {"streaming", "recent=2000,positions=slot",
       "the authors' real-drop program for streaming; hh_size H and recent_size R are a budget of "
       "H+R with recent=R, its 48 and 2000 a budget of 2048: 100% of its sets; evict_for_space, "
       "which no script of theirs reaches, makes room before a token arrives: a budget of H+R-1 "
       "with recent=R-1"},
      {"flexgen", "precision=half",
       "the authors' FlexGen program with --mode prefill; n = ratio * prompt is a budget of 2n-1. "
       "After the prompt it keeps n heavy hitters and n-1 local tokens: recent=n-1, 100% of its "
       "sets then. Later a step protects n local tokens, itself included, as here by default: 86% "
       "of its sets at n = 38, as the first cut differs; it rounds the sums over the prompt once, "
       "not at each step"},
      {"kvpress", "recent=0,score=mean",
       "ObservedAttentionPress of kvpress, with --mode prefill --eviction-interval never; n_kept "
       "is the budget: 100% of its sets"},
      {"cold-compress", "recent=10,score=mean",
       "KVCacheHeavyHitter of cold-compress with history_window_size=1, without "
       "attn_thresholding; its max_cache_length C is a budget of C-1, its recent_window recent=N, "
       "10 by default: 100% of its sets"},
      {"openvino", "score=mean",
       "cache eviction of OpenVINO GenAI; it evicts whole blocks of tokens, as --eviction-interval "
       "K does, "
       "and always keeps the first ones, as +protect does; its recent_size is recent=N here; not "
       "run"}};
}

}  // namespace kvsim
