// Eviction by a trained scorer: a linear form, a small network or decision trees over features of
// each token, whose weights come from a file. policies/learned/README.md says what a file holds and
// how each feature is computed.

#include <fmt/format.h>

#include <algorithm>

#include "policies/interface/policy_info.h"
#include "policies/learned/scorer.h"
#include "policies/learned/slot_rows.h"
#include "policies/learned/token_features.h"
#include "policies/learned/token_scorer.h"
#include "sim/base/errors.h"

namespace kvsim {
namespace {

class Learned final : public Policy {
 public:
  Learned(const Params& params, const Context& context)
      : scorer_(context.scorer),
        recent_(std::max(1, params.amount("recent", context.budget))),
        sinks_(params.integer("sinks")) {
    if (scorer_ == nullptr) return;  // planned before the file is read
    const Scorer& scorer = *scorer_;
    if (context.layer >= scorer.layers || context.kv_head >= scorer.kv_heads) {
      throw UsageError(
          fmt::format("{}: expected a scorer for {}, found those of {} layers with {} KV heads; "
                      "train one on this model",
                      scorer.file, context.unit, scorer.layers, scorer.kv_heads));
    }
    unit_ = context.unit;
    fixed_.emplace(scorer, context.rotation);
    changing_.emplace(scorer);
    of_unit_ = make_token_scorer(scorer, scorer.index_of(context.layer, context.kv_head));
  }

  Rules rules() const override {
    Rules rules{.protect_first = sinks_, .protect_newest = recent_};
    if (scorer_ == nullptr) return rules;
    rules.sees_values = scorer_->sees(FeatureKind::value) || scorer_->sees(FeatureKind::value_norm);
    rules.sees_kinds =
        scorer_->sees(FeatureKind::punctuation) || scorer_->sees(FeatureKind::special);
    rules.sees_rotation = scorer_->sees_rotation();
    const std::size_t floats = floats_per_token(*scorer_) + 5 * scorer_->features.size();
    rules.remembered = {.steps = 1, .bytes_per_token = floats * sizeof(float)};
    return rules;
  }

  void update(const Step& step, std::span<double> scores) override {
    if (!of_unit_) throw UsageError("policy learned: its file was not read; plan the replay first");
    const std::span<const std::size_t> left = tokens_.update(step.tokens);
    of_unit_->remove(left);
    changing_->remove(left);
    of_unit_->add(checked(fixed_->of_newest(step), step.index));
    changing_->add(step);
    if (step.overflow > 0) of_unit_->score(changing_->columns(step), scores);
  }

 private:
  /// Weights are finite and limited, so scores are numbers if features are.
  std::span<const float> checked(std::span<const float> fixed, int index) const {
    constexpr float kMost = 1e9F;
    const auto is_sane = [](float x) { return x >= -kMost && x <= kMost; };
    if (std::all_of(fixed.begin(), fixed.end(), is_sane)) return fixed;
    throw DataError(fmt::format(
        "{}: token {} of {}: expected keys and values of at most 1e9, found larger ones; leave the "
        "unit out",
        scorer_->file, index, unit_));
  }

  std::shared_ptr<const Scorer> scorer_;
  int recent_;
  int sinks_;
  std::string unit_;
  SlotTokens tokens_;
  std::optional<FixedFeatures> fixed_;
  std::optional<ChangingFeatures> changing_;
  std::unique_ptr<TokenScorer> of_unit_;
};

}  // namespace

PolicyInfo learned_policy() {
  return {
      .name = "learned",
      .keeps = "recent tokens and those that a trained scorer ranks highest",
      .source = "kvsim, policies/learned/README.md",
      .sees =
          "a file of weights; attention over the cache, and what the file names: keys, values, how "
          "keys were rotated, kinds of tokens",
      .differences =
          "on a text that it was trained on it may know the future, as an oracle does: the file's "
          "header names those texts",
      .params = {Param::text("file",
                             "scorers (.npz), as policies/learned/README.md describes them"),
                 Param::text("sha256", "what the file has to hold; filled in when it is read"),
                 Param::amount("recent", "0",
                               "newest tokens that always stay; the newest one does"),
                 Param::integer("sinks", 4, 0, 1'000'000, "first tokens, which stay")},
      .reads_scorer = true,
      .scoring_cost = [](const Params&, const UnitSizes& unit,
                         std::int64_t held) { return unit.attended(held) * 20; },
      .make = make_policy<Learned>};
}

}  // namespace kvsim
