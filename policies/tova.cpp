// TOVA, token omission via attention (Oren et al., 2024, section 4): evicts the token to which the
// current query attends least.

#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class Tova final : public Policy {
 public:
  Tova(const Params& params, const Context&)
      : scope_(params.choice("scope") == "layer" ? Scope::layer : Scope::head),
        full_(params.choice("score") == "full") {}

  Rules rules() const override {
    return {.sees_full_attention = full_,
            .scope = scope_,
            .score = ScoreRule{ScoreRule::Kind::attention}};
  }

 private:
  Scope scope_;
  bool full_;
};

// With one query head, attention over the cache orders tokens as full attention does, but not to
// the last bit: two values that differ after one normalisation may round to a tie after another.
bool full_attention_nests(const Params& params) {
  return params.choice("scope") == "head" && params.choice("score") == "full";
}

}  // namespace

PolicyInfo tova_policy() {
  return {.name = "tova",
          .keeps = "the tokens with the most attention at the current step",
          .source = "TOVA section 4",
          .sees = "attention over the cache; score=full: over the whole text",
          .differences =
              "by default each KV head decides alone; the paper takes the mean over a "
              "layer's heads, which is scope=layer",
          .params = {Param::choice("scope", {"head", "layer"},
                                   "whose attention decides: that of each KV head for itself, or "
                                   "the mean over its layer, for all of it"),
                     Param::choice("score", {"cached", "full"},
                                   "attention over the cache, or over the whole text")},
          .presets = {{"paper", "scope=layer",
                       "TOVA section 4: one decision for a whole layer; the cache_size of the "
                       "authors' TOVACache is the budget: 100% of its sets. TOVAPress of kvpress "
                       "always keeps the last token of the prompt; 100% of its sets, too"}},
          .nests = full_attention_nests,
          .nests_with = "score=full",
          .make = make_policy<Tova>};
}

}  // namespace kvsim
