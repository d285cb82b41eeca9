// ChunkKV (Liu et al., "ChunkKV: Semantic-Preserving KV Cache Compression for Efficient
// Long-Context LLM Inference", 2025, arXiv 2502.00299, section 3.2, Algorithm 1): tokens are kept
// in chunks of neighbours, by the mean of their scores, so that what belongs together stays
// together.

#include <algorithm>
#include <cmath>
#include <vector>

#include "policies/interface/score_wrapper.h"

namespace kvsim {
namespace {

class Chunks final : public ScoreWrapper {
 public:
  Chunks(std::unique_ptr<Policy> inner, const Rules& rules, const Params& params,
         const Context& context)
      : ScoreWrapper(std::move(inner), rules, context.budget), length_(params.integer("length")) {}

 private:
  void change(const Step& step, std::span<const double> own, std::span<double> scores) override {
    std::copy(own.begin(), own.end(), scores.begin());
    if (step.overflow == 0) return;
    const SlotRange range = candidates(own.size());
    for (std::size_t begin = range.begin; begin < range.end;) {
      const std::int32_t chunk = step.tokens[begin] / length_;
      std::size_t end = begin;
      double sum = 0;
      while (end < range.end && step.tokens[end] / length_ == chunk) sum += own[end++];
      const double mean = sum / static_cast<double>(end - begin);
      std::fill(scores.begin() + static_cast<std::ptrdiff_t>(begin),
                scores.begin() + static_cast<std::ptrdiff_t>(end), mean);
      begin = end;
    }
  }

  int length_;
};

std::unique_ptr<Policy> wrap_chunks(std::unique_ptr<Policy> policy, const Rules& rules,
                                    const Params& params, const Context& context) {
  return std::make_unique<Chunks>(std::move(policy), rules, params, context);
}

void join_chunks(Rules& rules, const Params&, const Context&) { leave_rule(rules); }

std::string why_not_chunks(const PolicyInfo& policy, const Rules& rules, const Params&) {
  std::string reason = why_no_scores(policy, rules);
  if (!reason.empty()) return reason;
  if (rules.prunes) return "it prunes tokens one by one";
  return "";
}

}  // namespace

CombinatorInfo chunk_combinator() {
  return {
      .name = "chunk",
      .does = "tokens are kept in chunks of neighbours, by the mean of their scores",
      .source =
          "ChunkKV (Liu et al. 2025, arXiv 2502.00299), section 3.2, Algorithm 1; "
          "ChunkKVPress of kvpress",
      .differences =
          "the mean is over the tokens of a chunk that are in the cache and that may leave. Papers "
          "and programs keep whole chunks, and so fewer tokens than the budget; here the last "
          "chunk gives up its earliest tokens, and no more, until the budget holds. The program "
          "joins the heads of a layer, as +shared does, and lets tokens that always stay add to "
          "the mean. The paper's reuse of indices by later layers is left out",
      .params = {Param::integer("length", 10, 1, 1'000'000,
                                "tokens of a chunk, from the first token of the text on")},
      .change = join_chunks,
      .why_not = why_not_chunks,
      .wrap = wrap_chunks};
}

}  // namespace kvsim
