// Value difference: keeps the recent tokens and, of the older ones, those whose values differ most
// from the others, by the rule that KeyDiff has for keys. Where attention is spread out, an output
// is near the mean of the values: the values that stay represent a value that points along the
// mean, and none represents one that points elsewhere. Values are not rotated, so that what is rare
// in the text stays whatever its position.

#include "policies/interface/policy_info.h"
#include "policies/mean_direction.h"

namespace kvsim {
namespace {

class ValueDifference final : public Policy {
 public:
  ValueDifference(const Params& params, const Context& context)
      : recent_(params.amount("recent", context.budget)) {}

  Rules rules() const override { return {.protect_newest = recent_, .sees_values = true}; }

  void update(const Step& step, std::span<double> scores) override {
    directions_.add(step.index, step.values[scores.size() - 1]);
    if (step.overflow > 0) directions_.score(step.tokens, step.values, scores);
  }

 private:
  int recent_;
  MeanDirection directions_;
};

}  // namespace

PolicyInfo valuediff_policy() {
  return {.name = "valuediff",
          .keeps = "recent tokens and those whose values are least like the others",
          .source = "policies/new_policies.md; KeyDiff section 3, for values",
          .sees = "values",
          .differences =
              "KeyDiff compares keys and protects no recent tokens; the mean direction is that of "
              "all values in the cache, the recent ones included. It was found on a toy model; on "
              "SmolLM2-135M it loses more than h2o (policies/new_policies.md)",
          .params = {Param::amount("recent", "0.5", "newest tokens that always stay")},
          .scoring_cost =
              [](const Params&, const UnitSizes& unit, std::int64_t held) {
                return unit.attended(held) * (20 + unit.value_dim * 2 / 5);
              },
          .make = make_policy<ValueDifference>};
}

}  // namespace kvsim
