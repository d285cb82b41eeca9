// Attention sinks: keeps the first tokens and the most recent ones (StreamingLLM: Xiao et al., ICLR
// 2024, section 3.2).

#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class Sink final : public Policy {
 public:
  Sink(const Params& params, const Context&)
      : sinks_(params.integer("sinks")), slots_(params.choice("positions") == "slot") {}

  Rules rules() const override {
    return {.protect_first = sinks_,
            .slot_positions = slots_,
            .score = ScoreRule{ScoreRule::Kind::newest}};
  }

  void update(const Step& step, std::span<double> scores) override { scores.back() = step.index; }

 private:
  int sinks_;
  bool slots_;
};

}  // namespace

PolicyInfo sink_policy() {
  return {.name = "sink",
          .keeps = "the first tokens and the most recent rest",
          .source = "StreamingLLM section 3.2",
          .sees = "nothing",
          .differences =
              "by default keys stay at their text positions, as in most other programs; "
              "the paper rotates them by cache slot, which is positions=slot",
          .params = {Param::integer("sinks", 4, 0, 1'000'000, "first tokens that always stay"),
                     Param::choice("positions", {"text", "slot"},
                                   "slot: keys are rotated to their slot of the cache, where the "
                                   "trace tells how")},
          .presets = {{"streaming-llm", "positions=slot",
                       "StreamingLLM section 3.2; start_size S and recent_size R of the authors' "
                       "StartRecentKVCache are sinks=S and a budget of S+R, as their evaluation "
                       "of long texts cuts it after each step: 100% of its sets; where its "
                       "evict_for_space makes room for each token before it attends, a budget of "
                       "S+R-1"}},
          .nests = [](const Params& params) { return params.choice("positions") == "text"; },
          .make = make_policy<Sink>};
}

}  // namespace kvsim
