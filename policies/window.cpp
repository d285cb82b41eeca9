// The most recent tokens: "Local" in H2O (section 5.1), window attention elsewhere.

#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class Window final : public Policy {
 public:
  Window(const Params&, const Context&) {}

  Rules rules() const override { return {.score = ScoreRule{ScoreRule::Kind::newest}}; }

  void update(const Step& step, std::span<double> scores) override { scores.back() = step.index; }
};

}  // namespace

PolicyInfo window_policy() {
  return {.name = "window",
          .keeps = "the most recent tokens",
          .source = "H2O section 5.1, \"Local\"",
          .sees = "nothing",
          .differences = "",
          .params = {},
          .nests = always_nests,
          .make = make_policy<Window>};
}

}  // namespace kvsim
