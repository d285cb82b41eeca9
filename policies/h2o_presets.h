#pragma once

#include <vector>

#include "policies/interface/policy_info.h"

namespace kvsim {

/// The settings of h2o that reproduce the six programs published by the authors of H2O and two
/// programs of others.
inline std::vector<Preset> h2o_presets() {
  return {
      {"masked", "",
       "the authors' masked generation, utils_hh; not its off-by-one that hides a token for one "
       "step as it leaves the recent window; its budget is a share of the prompt: give a "
       "percentage "
       "with --mode prefill"},
      {"lm-eval", "score=full,overlap=yes",
       "the authors' lm-eval program for OPT and GPT-NeoX, local; its budget is a share of the "
       "sequence; its heavy hitters count the current token too, so that one fewer is chosen"},
      {.name = "lm-eval-llama",
       .settings = "",
       .reproduces = "the authors' lm-eval program for LLaMA, global: it sums over all queries of "
                     "the sequence, later ones included; the oracle h2o-global does so",
       .acausal = true},
      {"real-drop", "",
       "the authors' real-drop program; its numbers of heavy and of recent tokens are a budget of "
       "both and recent=N here; grouped queries, which it cannot do, are averaged"},
      {"streaming", "recent=2000,positions=slot",
       "the authors' real-drop program for streaming; with a budget of 2048 its 48 heavy hitters"},
      {"flexgen", "precision=half",
       "the authors' FlexGen program; its n-1 heavy hitters and n+1 local tokens of a step are a "
       "budget of 2n-1 here; its n is a share of the prompt: give a percentage with --mode "
       "prefill; "
       "it rounds the sums over the prompt once, not at each step"},
      {"kvpress", "recent=0,score=mean",
       "ObservedAttentionPress of kvpress, with --mode prefill; it keeps all that comes after the "
       "prompt"},
      {"openvino", "score=mean",
       "cache eviction of OpenVINO GenAI; it evicts whole blocks of tokens and always keeps the "
       "first ones, as +protect does; its recent_size is recent=N here"}};
}

}  // namespace kvsim
