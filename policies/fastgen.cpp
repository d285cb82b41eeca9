// FastGen (Ge et al., "Model Tells You What to Discard: Adaptive KV Cache Compression for LLMs",
// ICLR 2024, sections 3.3 and 3.4, Algorithms 1 and 2): a profile of each head's attention to the
// prompt selects what the head keeps: special tokens; these and punctuation; these and frequent
// tokens, which have the most attention; these and local tokens, the most recent ones; everything.
// Each of these hybrids contains the previous one, so the first that recovers enough attention is
// the cheapest.
//
// Equation 1 bounds |A - softmax(Q K_C^T)| without naming the norm. Half the L1 norm is the
// attention to the tokens outside C and lies between 0 and 1, like the threshold; section 4.1 reads
// it the same way. What a learned sink takes is in every C.

#include <array>
#include <cmath>
#include <numeric>

#include "policies/heavy_hitters.h"

namespace kvsim {
namespace {

/// What each hybrid adds to the previous one. A token belongs to the first part that applies.
enum Part { kSpecial, kPunctuation, kFrequent, kLocal, kOther, kNumParts };

int share_of(double ratio, int length) {
  return static_cast<int>(std::floor(ratio * length + 0.5));
}

class FastGen final : public Policy {
 public:
  FastGen(const Params& params, const Context& context)
      : has_sink_(!context.sink_logit.empty()),
        recovery_(params.real("recovery")),
        frequency_(params.real("frequency")),
        locality_(params.real("locality")) {}

  Rules rules() const override { return {.sees_kinds = true, .prunes = true}; }

  void update(const Step& step, std::span<double> scores) override {
    accumulated_.add(step.tokens, step.attention);
    if (num_kept_parts_ == 0) {
      add_window_attention(step);
      if (step.overflow == 0) return;
      profile(step);
    }
    const std::vector<int> parts = parts_of(step);
    const double length = step.index + 1;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const std::int32_t token = step.tokens[i];
      const double rank = parts[i] == kLocal ? token : accumulated_.of(token) / 2;
      scores[i] = parts[i] < num_kept_parts_ ? rank / length - parts[i]
                                             : -std::numeric_limits<double>::infinity();
    }
  }

 private:
  // The length of the profiled text is not known in advance, so the window of a step is a share of
  // the text up to that step.
  void add_window_attention(const Step& step) {
    window_attention_.resize(static_cast<std::size_t>(step.index) + 1, 0);
    const int window = share_of(locality_, step.index + 1);
    for (std::size_t i = 0; i < step.tokens.size(); ++i) {
      const std::int32_t token = step.tokens[i];
      if (step.index - token >= window) continue;
      window_attention_[static_cast<std::size_t>(token)] += step.attention[i];
    }
    if (!has_sink_) return;
    sink_attention_ += 1 - std::accumulate(step.attention.begin(), step.attention.end(), 0.0);
  }

  void profile(const Step& step) {
    const int length = step.index + 1;
    num_frequent_ = static_cast<std::size_t>(share_of(frequency_, length));
    window_ = share_of(locality_, length);
    const std::vector<int> parts = parts_of(step);
    std::array<double, kNumParts> attention = {};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::int32_t token = step.tokens[i];
      const bool by_window = parts[i] >= kLocal;
      attention[by_window ? kLocal : parts[i]] +=
          by_window ? window_attention_[static_cast<std::size_t>(token)] : accumulated_.of(token);
    }
    double recovered = sink_attention_;
    for (const double more : attention) {
      ++num_kept_parts_;
      recovered += more;
      if (recovered >= recovery_ * length) break;
    }
  }

  std::vector<int> parts_of(const Step& step) const {
    std::vector<int> parts(step.tokens.size(), kOther);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (step.index - step.tokens[i] < window_) parts[i] = kLocal;
    }
    for (const std::size_t slot : accumulated_.heaviest(step.tokens, num_frequent_)) {
      parts[slot] = kFrequent;
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (step.kinds[i] == TokenKind::punctuation) parts[i] = kPunctuation;
      if (step.kinds[i] == TokenKind::special) parts[i] = kSpecial;
    }
    return parts;
  }

  bool has_sink_;
  double recovery_;
  double frequency_;
  double locality_;
  AccumulatedAttention accumulated_;
  std::vector<double> window_attention_;  // per token: attention received while in the window
  double sink_attention_ = 0;             // that learned sinks have taken
  int num_kept_parts_ = 0;                // parts that stay; 0: not profiled yet
  std::size_t num_frequent_ = 0;
  int window_ = 0;
};

}  // namespace

PolicyInfo fastgen_policy() {
  return {
      .name = "fastgen",
      .keeps = "what the head's profile asks for: special, punctuation, frequent, local or all",
      .source = "FastGen sections 3.3 and 3.4, Algorithms 1 and 2; ratios of section 5.1",
      .sees = "attention over the cache; kinds of tokens",
      .differences =
          "the paper has no budget. Here the profile is taken when the budget first overflows, "
          "over all steps so far; a short budget drops parts in the reverse of the order in which "
          "hybrids add them, so frequent tokens may fill it; within a part the least attended, of "
          "local tokens the oldest. The window of a profiled step is a share of the text up to it, "
          "not of the prompt; the number of frequent tokens does not grow after the profile",
      .params = {Param::real("recovery", 0.95, 0, 1, "share of the attention to be recovered"),
                 Param::real("frequency", 0.3, 0, 1, "frequent tokens, as a share of the profiled"),
                 Param::real("locality", 0.3, 0, 1, "local tokens, as a share of the profiled")},
      .make = make_policy<FastGen>};
}

}  // namespace kvsim
