#include "tests/support/spy.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

namespace kvsim::test_support {
namespace {

const Spec* inner_spec = nullptr;
Recording* current = nullptr;

class Spy final : public Policy {
 public:
  Spy(const Params&, const Context& context)
      : policy_(inner_spec->make(context)), rules_(inner_spec->rules(context)) {
    rules_.score.reset();  // with a score rule the engine would not call update()
  }

  Rules rules() const override { return rules_; }

  void update(const Step& step, std::span<double> scores) override {
    check_tokens(step);
    check_attention(step);
    check_kinds(step);
    check_scores(step, scores);
    current->tokens.emplace_back(step.tokens.begin(), step.tokens.end());
    current->overflow.push_back(step.overflow);
    policy_->update(step, scores);
    written_.resize(step.tokens.back() + std::size_t{1});
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (std::isnan(scores[i])) complain(step, "the policy wrote a score that is not a number");
      written_[static_cast<std::size_t>(step.tokens[i])] = scores[i];
    }
  }

 private:
  static void complain(const Step& step, const std::string& what) {
    current->complaints += fmt::format("step {}: {}\n", step.index, what);
  }

  static void check_tokens(const Step& step) {
    if (step.index != static_cast<int>(current->tokens.size())) complain(step, "out of order");
    if (step.tokens.empty() || step.tokens.back() != step.index) complain(step, "t is not last");
    for (std::size_t i = 1; i < step.tokens.size(); ++i) {
      if (step.tokens[i - 1] >= step.tokens[i]) complain(step, "tokens are not ascending");
    }
  }

  void check_attention(const Step& step) const {
    if (step.attention.size() != step.tokens.size()) complain(step, "attention of wrong size");
    // The entry for evicted tokens, those that a store keeps and a learned sink take a share that
    // no resident token has.
    const double missing = 1 - sum(step.attention);
    const bool is_shared = rules_.rest || rules_.keeps_evicted() || current->has_sink;
    if (missing < -1e-5 || (missing > 1e-5 && !is_shared)) {
      complain(step, "attention does not sum to 1");
    }
    for (const float p : step.attention) {
      if (!(p >= 0)) complain(step, "attention is negative or not a number");
    }
    const std::size_t expected = rules_.sees_full_attention ? step.tokens.size() : 0;
    if (step.full_attention.size() != expected) complain(step, "full attention of wrong size");
    if (sum(step.full_attention) > 1 + 1e-5) complain(step, "full attention sums to more than 1");
    for (std::size_t i = 0; i < step.full_attention.size(); ++i) {
      // Over fewer tokens, each share of attention is larger.
      const float a = step.full_attention[i];
      const float most = rules_.is_exact() ? step.attention[i] + 1e-6F : 1;
      if (!(a >= 0 && a <= most)) complain(step, "full attention too large");
    }
  }

  void check_kinds(const Step& step) const {
    if (step.kinds.size() != (rules_.sees_kinds ? step.tokens.size() : 0)) {
      complain(step, "kinds of wrong size");
    }
  }

  void check_scores(const Step& step, std::span<double> scores) const {
    if (scores.size() != step.tokens.size()) complain(step, "scores of wrong size");
    if (scores.back() != 0) complain(step, "the new token has a score");
    for (std::size_t i = 0; i + 1 < scores.size(); ++i) {
      const auto token = static_cast<std::size_t>(step.tokens[i]);
      if (scores[i] != written_[token]) complain(step, "a score is not what was written");
    }
  }

  static double sum(std::span<const float> values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
  }

  std::unique_ptr<Policy> policy_;
  Rules rules_;
  std::vector<double> written_;  // per text position
};

}  // namespace

Spec spied(const Spec& spec, Recording& recording) {
  static const PolicyInfo info{.name = "spy",
                               .keeps = "",
                               .source = "",
                               .sees = "",
                               .differences = "",
                               .params = {},
                               .make = make_policy<Spy>};
  inner_spec = &spec;
  current = &recording;
  return Spec(info);
}

}  // namespace kvsim::test_support
