// Evicted tokens pass on what they hold to tokens that stay, by one of three rules; each is a store
// of its own. merging/merge.md has the formulas, and what they change.

#include <memory>
#include <string>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/interface/store_combinator.h"
#include "policies/merging/cam_store.h"
#include "policies/merging/matching_store.h"
#include "policies/merging/nearest_store.h"

namespace kvsim {
namespace {

class MergeKind final : public StoreKind {
 public:
  explicit MergeKind(const Params& params)
      : into_(params.choice("into")),
        tokens_(params.integer("tokens")),
        match_{.queries = params.integer("queries"),
               .ridge = params.real("ridge"),
               .has_mass = params.choice("mass") == "yes"} {
    const std::string& weight = params.choice("weight");
    nearest_ = {.weight = weight == "count"       ? MergeWeight::count
                          : weight == "attention" ? MergeWeight::attention
                                                  : MergeWeight::cosine,
                .has_threshold = params.choice("threshold") == "ema",
                .has_mass = match_.has_mass};
  }

  std::unique_ptr<Store> make(const StoreContext& context) const override {
    if (into_ == "nearest") return make_nearest_store(context, nearest_);
    if (into_ == "attention") return make_matching_store(context, match_);
    return make_cam_store(context, tokens_);
  }

  std::size_t bytes(const VectorShape& shape, int tokens, int) const override {
    std::size_t of_weight = 0;
    if (into_ == "nearest") of_weight = weight_bytes(nearest_);
    if (into_ == "attention" && match_.has_mass) of_weight = 4;
    return static_cast<std::size_t>(tokens) * (shape.bytes() + of_weight);
  }

  bool joins_tokens() const override { return true; }

 private:
  std::string into_;
  int tokens_;
  AttentionMatch match_;
  NearestMerge nearest_;
};

void merge_evicted(Rules& rules, const Params& params, const Context&) {
  rules.store = std::make_shared<MergeKind>(params);
}

std::vector<Param> declared() {
  return {
      Param::choice("into", {"cam", "nearest", "attention"},
                    "where an evicted token goes: the values of the next held tokens (CaM), the "
                    "held token with the nearest key (D2O), biases and values of all held tokens "
                    "(attention matching)"),
      Param::integer("tokens", 32, 1, 1'000'000,
                     "of cam: the next held tokens that share the value"),
      Param::choice("weight", {"count", "attention", "cosine"},
                    "of nearest: what tokens count by in the mean; cosine is D2O's program"),
      Param::choice("threshold", {"none", "ema"},
                    "of nearest: ema loses tokens less alike than the moving average (D2O)"),
      Param::choice("mass", {"yes", "no"},
                    "of nearest: an entry of n tokens has ln n added to its logit; of attention: "
                    "biases are fitted"),
      Param::integer("queries", 16, 1, 1024, "of attention: last steps whose queries are matched"),
      Param::real("ridge", 0.01, 1e-9, 1e6,
                  "of attention: how much changes of biases and values cost"),
  };
}

// A setting that `into` would not read; empty: there is none.
std::string unread_setting(const Params& params) {
  const Params initial(declared());
  const std::string& into = params.choice("into");
  const auto unread = [&](const char* name, const std::string& readers, bool is_set) {
    return is_set && readers.find(into) == std::string::npos
               ? std::string("into=") + into + " does not read " + name + ", which is of " + readers
               : "";
  };
  const auto is_chosen = [&](const char* name) {
    return params.choice(name) != initial.choice(name);
  };
  for (const std::string& found :
       {unread("tokens", "cam", params.integer("tokens") != initial.integer("tokens")),
        unread("weight", "nearest", is_chosen("weight")),
        unread("threshold", "nearest", is_chosen("threshold")),
        unread("mass", "nearest and attention", is_chosen("mass")),
        unread("queries", "attention", params.integer("queries") != initial.integer("queries")),
        unread("ridge", "attention", params.real("ridge") != initial.real("ridge"))}) {
    if (!found.empty()) return found;
  }
  return "";
}

std::string why_not(const PolicyInfo& policy, const Rules& rules, const Params& params) {
  if (!rules.selects && policy.make_estimator == nullptr && !rules.bounded && !rules.prunes) {
    return "it evicts nothing";
  }
  if (rules.slot_positions && params.choice("into") != "cam") {
    return "with positions=slot the keys of evicted tokens have no position; into=cam needs none";
  }
  const std::string reason = why_not_stored(policy, rules);
  return reason.empty() ? unread_setting(params) : reason;
}

}  // namespace

CombinatorInfo merge_combinator() {
  return {
      .name = "merge",
      .does = "what is evicted is merged into tokens that stay",
      .source = "CaM Algorithm 1, Eq. 14; D2O (its program); arXiv 2602.16284 section 3",
      .differences =
          "merged vectors are kept in fp32 and counted at the recorded width; policies see keys "
          "and values as recorded; layers with a sliding window are refused; "
          "policies/merging/merge.md says where papers, programs and this differ",
      .params = declared(),
      .change = merge_evicted,
      .why_not = why_not};
}

}  // namespace kvsim
